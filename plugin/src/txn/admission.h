/*
  Tickets for transactions in stored procedures (docs/design/0014-admission.md).

  A procedure runs its transaction without a client in between. When more of them run than there are cores,
  they share the cores by the scheduler's slices, and all of them are late; taking turns, each is as long as
  its own work, and the rate is the same. So such a transaction begins with a ticket, for which it waits in
  line, and gives it up when it ends, waits for a lock or begins to commit.

  It is a matter of speed alone: nobody waits for a ticket while holding anything, and a ticket is taken from
  who has it for too long or without using it.
*/
#ifndef TIDESDB_TXN_ADMISSION_H
#define TIDESDB_TXN_ADMISSION_H

#include <chrono>
#include <condition_variable>

#include "key/sql_headers.h"

namespace tidesdb {

/* Of a session. Its calls are made by the connection's thread, but for cancel(). */
class AdmissionTicket {
 public:
  explicit AdmissionTicket(THD *thd) : thd_(thd) {}
  AdmissionTicket(const AdmissionTicket &) = delete;
  AdmissionTicket &operator=(const AdmissionTicket &) = delete;
  ~AdmissionTicket() { leave(); }

  /* Waits for a ticket, when the connection runs a procedure; does nothing for others. */
  void enter();
  void leave();
  /* By any thread: ends the wait of enter(), which returns without a ticket. */
  void cancel();

 private:
  friend class Admission;
  using Clock = std::chrono::steady_clock;
  enum class State { NONE, WAITING, CANCELLED, HELD };

  THD *const thd_;
  /* Under Admission's mutex, from here on. */
  State state_ = State::NONE;
  Clock::time_point since_;
  std::condition_variable changed_;
  /* Whether the ticket may still be held: what leave() looks at first. Written by the connection's thread. */
  bool entered_ = false;
};

struct AdmissionFigures {
  ulonglong waits;
  ulonglong wait_us;
};
AdmissionFigures admission_figures();

}  // namespace tidesdb
#endif
