-- Random keys: one table of keys and values, every access by a key that is drawn evenly.
--
-- A loaded key is the scrambled number of its row, so neighbours in the order of loading are none in the table.
-- Half of a value is random letters, the other half one letter: it can be compressed to about a half. The random half is a
-- part of a long text that each thread has drawn at its start, as db_bench takes its values: to draw every letter of a value of
-- 16 KB takes the client longer than the server needs to store it.

if sysbench.cmdline.command == nil then
   error("a command is required: prepare or run")
end

sysbench.cmdline.options = {
   table_size = {"Rows that are loaded", 10000},
   tables = {"Not used: there is one table", 1},
   value_bytes = {"Bytes of a value", 100},
   op = {"count, get, insert, scan, turnover, update or upsert", "get"},
   mysql_storage_engine = {"Storage engine", "innodb"}
}

local SPACE = 4294967296
local GAP = 1000000
local SCANNED = 10
local TABLE = "random_keys"
local TEXT = 1048576
-- A longer value is loaded by a statement of its own: sysbench joins rows to statements of at most 512 KB.
local MOST_JOINED = 262144
local con
local text
local padding

-- One to one below SPACE; the product stays below 2^53 up to three million rows.
local function key_of(row)
   return ((row * 2654435761) % SPACE) * GAP
end

local function draw_text()
   local half = math.floor(sysbench.opt.value_bytes / 2)
   text = sysbench.rand.string(string.rep("@", TEXT + half))
   padding = string.rep("x", sysbench.opt.value_bytes - half)
end

local function value()
   local half = sysbench.opt.value_bytes - #padding
   local at = sysbench.rand.uniform(1, TEXT)
   return text:sub(at, at + half - 1) .. padding
end

local function any_row(most)
   return sysbench.rand.uniform(1, most)
end

function thread_init()
   con = sysbench.sql.driver():connect()
   draw_text()
end

function thread_done()
   con:disconnect()
end

function event()
   local rows, op = sysbench.opt.table_size, sysbench.opt.op
   if op == "get" then
      con:query(string.format("SELECT v FROM %s WHERE k = %.0f", TABLE, key_of(any_row(rows))))
   elseif op == "update" then
      con:query(string.format("UPDATE %s SET v = '%s' WHERE k = %.0f", TABLE, value(), key_of(any_row(rows))))
   elseif op == "count" then
      con:query(string.format("UPDATE %s SET n = n + 1 WHERE k = %.0f", TABLE, key_of(any_row(rows))))
   elseif op == "scan" then
      con:query(string.format("SELECT v FROM %s WHERE k >= %.0f ORDER BY k LIMIT %d", TABLE, key_of(any_row(rows)), SCANNED))
   elseif op == "upsert" then
      -- Every second key is there at first.
      con:query(string.format("INSERT INTO %s (k, v) VALUES (%.0f, '%s') ON DUPLICATE KEY UPDATE v = VALUES(v)", TABLE,
                              key_of(any_row(2 * rows)), value()))
   elseif op == "turnover" then
      -- A row is deleted, and one of the same key comes: as many rows afterwards as before.
      local key = key_of(any_row(rows))
      con:query("BEGIN")
      con:query(string.format("DELETE FROM %s WHERE k = %.0f", TABLE, key))
      con:query(string.format("INSERT INTO %s (k, v) VALUES (%.0f, '%s')", TABLE, key, value()))
      con:query("COMMIT")
   elseif op == "insert" then
      -- A new key lies anywhere among the loaded ones: a million of free ones after each of them.
      local key = sysbench.rand.uniform(0, 2147483646) * 2 * GAP + sysbench.rand.uniform(1, GAP - 1)
      con:query(string.format("INSERT INTO %s (k, v) VALUES (%.0f, '%s')", TABLE, key, value()))
   else
      error("there is no op " .. op)
   end
end

function prepare()
   draw_text()
   con = sysbench.sql.driver():connect()
   con:query(string.format("CREATE TABLE %s (k BIGINT NOT NULL PRIMARY KEY, n INT NOT NULL DEFAULT 0, v MEDIUMBLOB NOT NULL) ENGINE = %s", TABLE,
                           sysbench.opt.mysql_storage_engine))
   local insert = string.format("INSERT INTO %s (k, v) VALUES", TABLE)
   local joins = sysbench.opt.value_bytes <= MOST_JOINED
   if joins then con:bulk_insert_init(insert) end
   for row = 1, sysbench.opt.table_size do
      local values = string.format("(%.0f, '%s')", key_of(row), value())
      if joins then con:bulk_insert_next(values) else con:query(insert .. values) end
   end
   if joins then con:bulk_insert_done() end
   con:disconnect()
end
