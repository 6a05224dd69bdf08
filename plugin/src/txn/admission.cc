#include "txn/admission.h"

#include <mysql/plugin.h>
#include <mysql/service_thd_wait.h>
#include <sched.h>

#include <algorithm>
#include <deque>
#include <mutex>
#include <vector>

#include "sql_class.h"

#include "sysvars.h"
#include "txn/applier.h"

namespace tidesdb {

namespace {

/* A ticket is taken from who has had it for this long: a large transaction, or one that waits for something
   that the engine does not see. */
constexpr std::chrono::milliseconds LONGEST_HOLD{20};
/* After so long in line somebody looks for tickets that are held and not used; who has others before him
   looks later, so that usually the first one does, and nobody has to be told that he is it: a wake-up for
   each transaction costs more than a late look. */
constexpr std::chrono::milliseconds LOOK{1};

size_t cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  return static_cast<size_t>(std::max(1, CPU_COUNT(&set)));
}

}  // namespace

class Admission {
 public:
  void enter(AdmissionTicket *ticket);
  void leave(AdmissionTicket *ticket);
  void cancel(AdmissionTicket *ticket);
  AdmissionFigures figures() {
    std::lock_guard<std::mutex> guard(mutex_);
    return figures_;
  }

 private:
  using Clock = AdmissionTicket::Clock;

  static size_t tickets() {
    static const size_t all_cores = cores();
    const ulong chosen = sysvars::procedure_concurrency();
    return chosen == 0 ? all_cores : chosen;
  }

  void give(AdmissionTicket *ticket) {
    ticket->state_ = AdmissionTicket::State::HELD;
    ticket->since_ = Clock::now();
    holders_.push_back(ticket);
  }

  void take(AdmissionTicket *ticket) {
    holders_.erase(std::find(holders_.begin(), holders_.end(), ticket));
    ticket->state_ = AdmissionTicket::State::NONE;
  }

  /* The call has returned and its transaction is still open: the client thinks. */
  static bool is_idle(const AdmissionTicket *ticket) { return ticket->thd_->get_command() == COM_SLEEP; }

  void take_unused() {
    const Clock::time_point now = Clock::now();
    for (size_t i = holders_.size(); i-- > 0;)
      if (now - holders_[i]->since_ >= LONGEST_HOLD || is_idle(holders_[i])) take(holders_[i]);
  }

  /* Gives free tickets in the line's order. */
  void give_free() {
    while (!line_.empty() && holders_.size() < tickets()) {
      AdmissionTicket *first = line_.front();
      line_.pop_front();
      give(first);
      first->changed_.notify_one();
    }
  }

  size_t position(const AdmissionTicket *ticket) const {
    return static_cast<size_t>(std::find(line_.begin(), line_.end(), ticket) - line_.begin());
  }

  std::mutex mutex_;
  std::vector<AdmissionTicket *> holders_;
  std::deque<AdmissionTicket *> line_;
  AdmissionFigures figures_{};
};

namespace {
Admission admission;
}

void Admission::enter(AdmissionTicket *ticket) {
  std::unique_lock<std::mutex> guard(mutex_);
  if (line_.empty() && holders_.size() < tickets()) {
    give(ticket);
    return;
  }
  const Clock::time_point begin = Clock::now();
  ticket->state_ = AdmissionTicket::State::WAITING;
  line_.push_back(ticket);
  guard.unlock();
  thd_wait_begin(ticket->thd_, THD_WAIT_ROW_LOCK);
  /* A kill that came before cancel() could meet this wait. */
  const bool killed = thd_kill_level(ticket->thd_) != THD_IS_NOT_KILLED;
  guard.lock();
  if (killed && ticket->state_ == AdmissionTicket::State::WAITING)
    ticket->state_ = AdmissionTicket::State::CANCELLED;
  while (ticket->state_ == AdmissionTicket::State::WAITING) {
    if (ticket->changed_.wait_for(guard, LOOK * (position(ticket) + 1)) == std::cv_status::timeout) {
      take_unused();
      give_free();
    }
  }
  if (ticket->state_ == AdmissionTicket::State::CANCELLED) {
    line_.erase(std::find(line_.begin(), line_.end(), ticket));
    ticket->state_ = AdmissionTicket::State::NONE;
    give_free();
  }
  figures_.waits++;
  figures_.wait_us += static_cast<ulonglong>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  guard.unlock();
  thd_wait_end(ticket->thd_);
}

void Admission::leave(AdmissionTicket *ticket) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (ticket->state_ != AdmissionTicket::State::HELD) return; /* taken away */
  take(ticket);
  give_free();
}

void Admission::cancel(AdmissionTicket *ticket) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (ticket->state_ != AdmissionTicket::State::WAITING) return;
  ticket->state_ = AdmissionTicket::State::CANCELLED;
  ticket->changed_.notify_one();
}

void AdmissionTicket::enter() {
  /* What a replica applies has its order already. */
  if (entered_ || !thd_->spcont || is_applier(thd_)) return;
  entered_ = true;
  admission.enter(this);
}

void AdmissionTicket::leave() {
  if (!entered_) return;
  entered_ = false;
  admission.leave(this);
}

void AdmissionTicket::cancel() { admission.cancel(this); }

AdmissionFigures admission_figures() { return admission.figures(); }

}  // namespace tidesdb
