//! Violations of each condition, planted into the tables of a real server and taken out again:
//! the check of the conditions must find each.

use tidelab_server::error::Result;
use tidelab_server::server::session::Address;
use tidelab_server::workload::tpcc::{readout, Scale};

use super::must;
use super::session::Session;

/// A condition, the statement to break it, and the one to mend it.
const PLANTS: [(u8, &str, &str); 13] = [
    (
        1,
        "UPDATE warehouse SET w_ytd = w_ytd + 1 WHERE w_id = 1",
        "UPDATE warehouse SET w_ytd = w_ytd - 1 WHERE w_id = 1",
    ),
    (
        2,
        "UPDATE district SET d_next_o_id = d_next_o_id + 1 WHERE d_w_id = 1 AND d_id = 1",
        "UPDATE district SET d_next_o_id = d_next_o_id - 1 WHERE d_w_id = 1 AND d_id = 1",
    ),
    (
        3,
        "INSERT INTO new_order VALUES (1, 1, -5)",
        "DELETE FROM new_order WHERE no_w_id = 1 AND no_d_id = 1 AND no_o_id = -5",
    ),
    (
        4,
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - 1 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
    ),
    (
        5,
        "UPDATE orders SET o_carrier_id = NULL WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
        "UPDATE orders SET o_carrier_id = 3 WHERE o_w_id = 1 AND o_d_id = 1 AND o_id = 1",
    ),
    (
        6,
        "UPDATE orders SET o_ol_cnt = o_ol_cnt + IF(o_id = 1, 1, -1) WHERE o_w_id = 1 AND o_d_id = 1 AND o_id < 3",
        "UPDATE orders SET o_ol_cnt = o_ol_cnt - IF(o_id = 1, 1, -1) WHERE o_w_id = 1 AND o_d_id = 1 AND o_id < 3",
    ),
    (
        7,
        "UPDATE order_line SET ol_delivery_d = NULL WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
        "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = 1 AND ol_d_id = 1 AND ol_o_id = 1 AND ol_number = 1",
    ),
    (
        8,
        "INSERT INTO history VALUES (1, 1, 1, 1, 1, NOW(), 9.99, 'planted')",
        "DELETE FROM history WHERE h_data = 'planted'",
    ),
    (
        9,
        "UPDATE district SET d_ytd = d_ytd + IF(d_id = 1, 1, -1) WHERE d_w_id = 1 AND d_id < 3",
        "UPDATE district SET d_ytd = d_ytd - IF(d_id = 1, 1, -1) WHERE d_w_id = 1 AND d_id < 3",
    ),
    (
        10,
        "UPDATE customer SET c_balance = c_balance + 1, c_ytd_payment = c_ytd_payment - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        "UPDATE customer SET c_balance = c_balance - 1, c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ),
    (
        11,
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        "UPDATE customer SET c_delivery_cnt = c_delivery_cnt - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ),
    (
        12,
        "UPDATE customer SET c_ytd_payment = c_ytd_payment + 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
        "UPDATE customer SET c_ytd_payment = c_ytd_payment - 1 WHERE c_w_id = 1 AND c_d_id = 1 AND c_id = 1",
    ),
    (
        13,
        "UPDATE stock SET s_ytd = s_ytd + 1 WHERE s_w_id = 1 AND s_i_id = 1",
        "UPDATE stock SET s_ytd = s_ytd - 1 WHERE s_w_id = 1 AND s_i_id = 1",
    ),
];

/// Plants each violation in a database without one. Returns a line for each violation not found.
pub fn complaints(
    session: &mut Session,
    address: &Address,
    database: &str,
    scale: Scale,
) -> Result<Vec<String>> {
    let mut complaints = Vec::new();
    must("use", session.run(&format!("USE {database}")))?;
    for (condition, plant, mend) in PLANTS {
        must(plant, session.run(plant))?;
        let found = readout::check(address, database, scale, 2)?;
        if !found.violations.iter().any(|v| v.condition == condition) {
            complaints.push(format!(
                "a violation of condition {condition} was planted and not found ({plant}); found: {:?}",
                found.complaints()
            ));
        }
        must(mend, session.run(mend))?;
    }
    let after = readout::check(address, database, scale, 2)?;
    complaints
        .extend(after.complaints().into_iter().map(|c| format!("after all plants were taken out: {c}")));
    Ok(complaints)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_for_each_condition() {
        assert_eq!(PLANTS.map(|(condition, ..)| condition).to_vec(), (1..=13).collect::<Vec<u8>>());
    }
}
