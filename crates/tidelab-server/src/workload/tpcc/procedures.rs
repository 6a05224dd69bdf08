//! The five transactions as stored procedures, after clause 2 of the specification, in HammerDB's form. Each
//! procedure draws the order's items and quantities itself and returns its results in OUT parameters.
//!
//! HammerDB's text would let some conditions of clause 3.3.2 fail. There these procedures follow the
//! specification:
//!
//! * DELIVERY locks its order.
//! * Payments lower the balance and raise c_ytd_payment and c_payment_cnt.
//! * Deliveries raise c_delivery_cnt.
//! * Stock is read under the lock of its change, and keeps s_ytd, s_order_cnt and s_remote_cnt.
//! * An order line's amount is quantity times price.
//!
//! An error ends a procedure and reaches the client; the client rolls back. NEWORD finds its unused item (one
//! of a hundred orders) missing, and rolls back inside.

use super::{Scale, Transaction, DISTRICTS};
use crate::server::session::{Failure, Session};

/// Makes all five in a database. With `tokens`, each changing transaction also writes a row with the number
/// in the session's `@token`.
pub fn make(session: &mut Session, database: &str, scale: Scale, tokens: bool) -> Result<(), Failure> {
    session.run(&format!("USE {database}"))?;
    for transaction in Transaction::ALL {
        session.run(&format!("DROP PROCEDURE IF EXISTS {}", transaction.name()))?;
        session.run(&text(transaction, scale, tokens))?;
    }
    Ok(())
}

/// The statement to make one.
pub fn text(transaction: Transaction, scale: Scale, tokens: bool) -> String {
    let token = |w: &str, d: &str, n: &str| {
        if !tokens {
            return String::new();
        }
        format!("INSERT INTO token VALUES (@token, {}, {w}, {d}, {n});", transaction.index())
    };
    match transaction {
        Transaction::NewOrder => new_order(scale, &token("no_w_id", "no_d_id", "o_id")),
        Transaction::Payment => payment(&token("p_w_id", "p_d_id", "ROUND(p_h_amount * 100)")),
        Transaction::Delivery => delivery(&token("d_w_id", "0", "d_delivered")),
        Transaction::StockLevel => STOCK_LEVEL.to_string(),
        Transaction::OrderStatus => ORDER_STATUS.to_string(),
    }
}

/// The customer's data are read before the transaction begins, as HammerDB does: they are only
/// shown, and tax and discount never change.
fn new_order(scale: Scale, token: &str) -> String {
    let dist: String =
        (1..=DISTRICTS).map(|d| format!(" WHEN {d} THEN s_dist_{d:02}")).collect::<Vec<_>>().concat();
    let items = scale.items;
    format!(
        "CREATE PROCEDURE NEWORD (IN no_w_id INT, IN no_max_w_id INT, IN no_d_id INT, IN no_c_id INT,
  IN no_o_ol_cnt INT, OUT no_c_discount DECIMAL(4,4), OUT no_c_last VARCHAR(16), OUT no_c_credit VARCHAR(2),
  OUT no_d_tax DECIMAL(4,4), OUT no_w_tax DECIMAL(4,4), OUT no_o_id INT, IN no_entry DATETIME)
BEGIN
  DECLARE o_id, line, rbk, item, supply, quantity, stock_left INT;
  DECLARE all_local INT DEFAULT 1;
  DECLARE price DECIMAL(5,2);
  DECLARE item_name, dist_info VARCHAR(24);
  DECLARE item_data, stock_data VARCHAR(50);
  DECLARE EXIT HANDLER FOR NOT FOUND
  BEGIN
    ROLLBACK;
    SET no_o_id = 0;
  END;
  SELECT c_discount, c_last, c_credit, w_tax INTO no_c_discount, no_c_last, no_c_credit, no_w_tax
    FROM customer, warehouse
    WHERE w_id = no_w_id AND c_w_id = no_w_id AND c_d_id = no_d_id AND c_id = no_c_id;
  START TRANSACTION;
  SELECT d_next_o_id, d_tax INTO o_id, no_d_tax
    FROM district WHERE d_w_id = no_w_id AND d_id = no_d_id FOR UPDATE;
  UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = no_w_id AND d_id = no_d_id;
  SET rbk = FLOOR(1 + RAND() * 100);
  SET line = 1;
  WHILE line <= no_o_ol_cnt DO
    SET item = FLOOR(1 + RAND() * {items});
    IF line = no_o_ol_cnt AND rbk = 1 THEN
      SET item = {items} + 1;
    END IF;
    SET supply = no_w_id;
    IF no_max_w_id > 1 AND FLOOR(1 + RAND() * 100) = 1 THEN
      SET supply = FLOOR(1 + RAND() * (no_max_w_id - 1));
      IF supply >= no_w_id THEN
        SET supply = supply + 1;
      END IF;
      SET all_local = 0;
    END IF;
    SET quantity = FLOOR(1 + RAND() * 10);
    SELECT i_price, i_name, i_data INTO price, item_name, item_data FROM item WHERE i_id = item;
    SELECT s_quantity, s_data, CASE no_d_id{dist} END INTO stock_left, stock_data, dist_info
      FROM stock WHERE s_w_id = supply AND s_i_id = item FOR UPDATE;
    IF stock_left >= quantity + 10 THEN
      SET stock_left = stock_left - quantity;
    ELSE
      SET stock_left = stock_left - quantity + 91;
    END IF;
    UPDATE stock SET s_quantity = stock_left, s_ytd = s_ytd + quantity, s_order_cnt = s_order_cnt + 1,
      s_remote_cnt = s_remote_cnt + (supply <> no_w_id) WHERE s_w_id = supply AND s_i_id = item;
    INSERT INTO order_line VALUES
      (no_w_id, no_d_id, o_id, line, item, NULL, quantity * price, supply, quantity, dist_info);
    SET line = line + 1;
  END WHILE;
  INSERT INTO orders VALUES (o_id, no_w_id, no_d_id, no_c_id, NULL, no_o_ol_cnt, all_local, no_entry);
  INSERT INTO new_order VALUES (no_w_id, no_d_id, o_id);
  {token}
  COMMIT;
  SET no_o_id = o_id;
END"
    )
}

fn payment(token: &str) -> String {
    format!(
        "CREATE PROCEDURE PAYMENT (IN p_w_id INT, IN p_d_id INT, IN p_c_w_id INT, IN p_c_d_id INT,
  INOUT p_c_id INT, IN by_name INT, IN p_h_amount DECIMAL(6,2), INOUT p_c_last VARCHAR(16),
  OUT p_w_name VARCHAR(10), OUT p_d_name VARCHAR(10), OUT p_c_credit CHAR(2), OUT p_c_discount DECIMAL(4,4),
  OUT p_c_balance DECIMAL(12,2), OUT p_c_data VARCHAR(500), IN p_date DATETIME)
BEGIN
  DECLARE namesakes INT;
  DECLARE street_1, street_2, city VARCHAR(20);
  DECLARE state CHAR(2);
  DECLARE zip CHAR(9);
  DECLARE first_name VARCHAR(16);
  DECLARE middle_name CHAR(2);
  DECLARE phone CHAR(16);
  DECLARE since DATETIME;
  DECLARE credit_lim DECIMAL(12,2);
  START TRANSACTION;
  UPDATE warehouse SET w_ytd = w_ytd + p_h_amount WHERE w_id = p_w_id;
  SELECT w_street_1, w_street_2, w_city, w_state, w_zip, w_name
    INTO street_1, street_2, city, state, zip, p_w_name FROM warehouse WHERE w_id = p_w_id;
  UPDATE district SET d_ytd = d_ytd + p_h_amount WHERE d_w_id = p_w_id AND d_id = p_d_id;
  SELECT d_street_1, d_street_2, d_city, d_state, d_zip, d_name
    INTO street_1, street_2, city, state, zip, p_d_name FROM district WHERE d_w_id = p_w_id AND d_id = p_d_id;
  IF by_name = 1 THEN
    SELECT COUNT(c_id) INTO namesakes FROM customer
      WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last;
    SET namesakes = (namesakes + 1) DIV 2 - 1;
    SELECT c_id INTO p_c_id FROM customer
      WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_last = p_c_last ORDER BY c_first LIMIT namesakes, 1;
  END IF;
  SELECT c_first, c_middle, c_last, c_street_1, c_street_2, c_city, c_state, c_zip, c_phone, c_since,
      c_credit, c_credit_lim, c_discount, c_balance - p_h_amount
    INTO first_name, middle_name, p_c_last, street_1, street_2, city, state, zip, phone, since,
      p_c_credit, credit_lim, p_c_discount, p_c_balance
    FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id FOR UPDATE;
  SET p_c_data = '';
  IF p_c_credit = 'BC' THEN
    UPDATE customer SET c_balance = c_balance - p_h_amount, c_ytd_payment = c_ytd_payment + p_h_amount,
      c_payment_cnt = c_payment_cnt + 1,
      c_data = LEFT(CONCAT(p_c_id, ' ', p_c_d_id, ' ', p_c_w_id, ' ', p_d_id, ' ', p_w_id, ' ', p_h_amount, ' | ',
        c_data), 500)
      WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
    SELECT LEFT(c_data, 200) INTO p_c_data
      FROM customer WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
  ELSE
    UPDATE customer SET c_balance = c_balance - p_h_amount, c_ytd_payment = c_ytd_payment + p_h_amount,
      c_payment_cnt = c_payment_cnt + 1
      WHERE c_w_id = p_c_w_id AND c_d_id = p_c_d_id AND c_id = p_c_id;
  END IF;
  INSERT INTO history VALUES (p_c_id, p_c_d_id, p_c_w_id, p_d_id, p_w_id, p_date, p_h_amount,
    CONCAT(p_w_name, '    ', p_d_name));
  {token}
  COMMIT;
END"
    )
}

fn delivery(token: &str) -> String {
    format!(
        "CREATE PROCEDURE DELIVERY (IN d_w_id INT, IN d_carrier_id INT, IN d_date DATETIME, OUT d_delivered INT)
BEGIN
  DECLARE district, oldest, buyer INT;
  DECLARE total DECIMAL(12,2);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET oldest = NULL;
  SET d_delivered = 0;
  SET district = 1;
  START TRANSACTION;
  WHILE district <= {DISTRICTS} DO
    SET oldest = NULL;
    SELECT no_o_id INTO oldest FROM new_order WHERE no_w_id = d_w_id AND no_d_id = district
      ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF oldest IS NOT NULL THEN
      DELETE FROM new_order WHERE no_w_id = d_w_id AND no_d_id = district AND no_o_id = oldest;
      SELECT o_c_id INTO buyer FROM orders
        WHERE o_w_id = d_w_id AND o_d_id = district AND o_id = oldest FOR UPDATE;
      UPDATE orders SET o_carrier_id = d_carrier_id
        WHERE o_w_id = d_w_id AND o_d_id = district AND o_id = oldest;
      UPDATE order_line SET ol_delivery_d = d_date
        WHERE ol_w_id = d_w_id AND ol_d_id = district AND ol_o_id = oldest;
      SELECT SUM(ol_amount) INTO total FROM order_line
        WHERE ol_w_id = d_w_id AND ol_d_id = district AND ol_o_id = oldest;
      UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = d_w_id AND c_d_id = district AND c_id = buyer;
      SET d_delivered = d_delivered + 1;
    END IF;
    SET district = district + 1;
  END WHILE;
  {token}
  COMMIT;
END"
    )
}

const STOCK_LEVEL: &str =
    "CREATE PROCEDURE SLEV (IN st_w_id INT, IN st_d_id INT, IN threshold INT, OUT low_stock INT)
BEGIN
  DECLARE next_o_id INT;
  START TRANSACTION;
  SELECT d_next_o_id INTO next_o_id FROM district WHERE d_w_id = st_w_id AND d_id = st_d_id;
  SELECT COUNT(DISTINCT s_i_id) INTO low_stock FROM order_line, stock
    WHERE ol_w_id = st_w_id AND ol_d_id = st_d_id AND ol_o_id < next_o_id AND ol_o_id >= next_o_id - 20
      AND s_w_id = st_w_id AND s_i_id = ol_i_id AND s_quantity < threshold;
  COMMIT;
END";

const ORDER_STATUS: &str =
    "CREATE PROCEDURE OSTAT (IN os_w_id INT, IN os_d_id INT, INOUT os_c_id INT, IN by_name INT,
  INOUT os_c_last VARCHAR(16), OUT os_c_first VARCHAR(16), OUT os_c_middle CHAR(2),
  OUT os_c_balance DECIMAL(12,2), OUT os_o_id INT, OUT os_entry_d DATETIME, OUT os_carrier_id INT,
  OUT os_lines INT)
BEGIN
  DECLARE namesakes, item, supply, quantity, done INT DEFAULT 0;
  DECLARE amount DECIMAL(6,2);
  DECLARE delivered DATETIME;
  DECLARE line CURSOR FOR SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_delivery_d
    FROM order_line WHERE ol_w_id = os_w_id AND ol_d_id = os_d_id AND ol_o_id = os_o_id;
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET done = 1;
  SET os_lines = 0;
  START TRANSACTION;
  IF by_name = 1 THEN
    SELECT COUNT(c_id) INTO namesakes FROM customer
      WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_last = os_c_last;
    SET namesakes = (namesakes + 1) DIV 2 - 1;
    SELECT c_balance, c_first, c_middle, c_id INTO os_c_balance, os_c_first, os_c_middle, os_c_id FROM customer
      WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_last = os_c_last ORDER BY c_first LIMIT namesakes, 1;
  ELSE
    SELECT c_balance, c_first, c_middle, c_last INTO os_c_balance, os_c_first, os_c_middle, os_c_last FROM customer
      WHERE c_w_id = os_w_id AND c_d_id = os_d_id AND c_id = os_c_id;
  END IF;
  SET done = 0;
  SELECT o_id, o_carrier_id, o_entry_d INTO os_o_id, os_carrier_id, os_entry_d FROM orders
    WHERE o_w_id = os_w_id AND o_d_id = os_d_id AND o_c_id = os_c_id ORDER BY o_id DESC LIMIT 1;
  IF done = 0 THEN
    OPEN line;
    FETCH line INTO item, supply, quantity, amount, delivered;
    WHILE done = 0 DO
      SET os_lines = os_lines + 1;
      FETCH line INTO item, supply, quantity, amount, delivered;
    END WHILE;
    CLOSE line;
  END IF;
  COMMIT;
END";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_written_in_the_transaction_and_only_when_asked() {
        for transaction in [Transaction::NewOrder, Transaction::Payment, Transaction::Delivery] {
            let with = text(transaction, Scale::full(2), true);
            let token = with.find("INSERT INTO token VALUES (@token,").unwrap();
            let (begin, commit) = (with.find("START TRANSACTION").unwrap(), with.find("COMMIT").unwrap());
            assert!(begin < token && token < commit, "{with}");
            assert!(!text(transaction, Scale::full(2), false).contains("token"));
        }
    }

    #[test]
    fn procedures_have_hammerdb_s_names_and_the_scale_s_items() {
        for transaction in Transaction::ALL {
            let text = text(transaction, Scale::tenth(1), false);
            assert!(text.starts_with(&format!("CREATE PROCEDURE {} (", transaction.name())));
        }
        let text = text(Transaction::NewOrder, Scale::tenth(1), false);
        assert!(text.contains("RAND() * 10000)") && text.contains("SET item = 10000 + 1"), "{text}");
        assert!(text.contains("WHEN 10 THEN s_dist_10 END"));
    }
}
