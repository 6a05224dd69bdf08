/*
  A start without the engine over a binary log that a crash left open. The server recovers by that log which
  prepared transactions commit, with the engines that are there, and begins a new one. Those of an engine that
  is missing are forgotten: its next start would ask for tc-heuristic-recover, or lose what was committed.
*/
#ifndef TIDESDB_CRASHED_BINARY_LOG_H
#define TIDESDB_CRASHED_BINARY_LOG_H

namespace tidesdb {

/* After the store was refused, before the server opens its binary log: ends the process where that log was
   not closed, with the reason and the ways out in the error log. */
void keep_crashed_binary_log();

}  // namespace tidesdb

#endif
