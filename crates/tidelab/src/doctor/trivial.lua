-- The least that a statement can ask of a server, over the path of sysbench's own scripts: a
-- prepared statement for each connection. Options that those have are accepted and mean nothing.
sysbench.cmdline.options = {
  tables = {"not used", 1},
  table_size = {"not used", 1},
  mysql_storage_engine = {"not used", "InnoDB"},
  statement = {"the statement", "DO 1"}
}

function thread_init()
  connection = sysbench.sql.driver():connect()
  prepared = connection:prepare(sysbench.opt.statement)
end

function event()
  prepared:execute()
end

function thread_done()
  prepared:close()
  connection:disconnect()
end
