/*
  The server's functions for engines of a Galera cluster, as InnoDB has them.

  The form of the header that plugins get calls them by a table, clashes with the server's other headers of
  wsrep, and has a wrong macro. mariadbd exports the functions themselves. Included by sources of cluster/
  alone, before any other header of the server's wsrep.
*/
#ifndef TIDESDB_CLUSTER_WSREP_SERVICE_H
#define TIDESDB_CLUSTER_WSREP_SERVICE_H

#ifdef MYSQL_DYNAMIC_PLUGIN
#undef MYSQL_DYNAMIC_PLUGIN
#include <mysql/service_wsrep.h>
#define MYSQL_DYNAMIC_PLUGIN
#else
#include <mysql/service_wsrep.h>
#endif

#endif
