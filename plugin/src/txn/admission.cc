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

/* A place is taken from who has had it for this long: a large transaction, or one that waits for something
   that the engine does not see. */
constexpr std::chrono::milliseconds LONGEST_HOLD{20};
/* After so long in line somebody looks for places that are held and not used; who has others before him looks
   later, so that usually the first one does, and nobody has to be told that he is it: a wake-up for each
   transaction costs more than a late look. */
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
  void enter(Place *place);
  void leave(Place *place);
  void cancel(Place *place);
  AdmissionFigures figures() {
    std::lock_guard<std::mutex> guard(mutex_);
    return figures_;
  }

 private:
  using Clock = Place::Clock;

  static size_t places() {
    static const size_t all_cores = cores();
    const ulong chosen = sysvars::procedure_concurrency();
    return chosen == 0 ? all_cores : chosen;
  }

  void give(Place *place) {
    place->state_ = Place::State::HELD;
    place->since_ = Clock::now();
    holders_.push_back(place);
  }

  void take(Place *place) {
    holders_.erase(std::find(holders_.begin(), holders_.end(), place));
    place->state_ = Place::State::NONE;
  }

  /* The call has returned and its transaction is still open: the client thinks. */
  static bool is_idle(const Place *place) { return place->thd_->get_command() == COM_SLEEP; }

  void take_unused() {
    const Clock::time_point now = Clock::now();
    for (size_t i = holders_.size(); i-- > 0;)
      if (now - holders_[i]->since_ >= LONGEST_HOLD || is_idle(holders_[i])) take(holders_[i]);
  }

  /* Gives free places in the line's order. */
  void give_free() {
    while (!line_.empty() && holders_.size() < places()) {
      Place *first = line_.front();
      line_.pop_front();
      give(first);
      first->changed_.notify_one();
    }
  }

  size_t position(const Place *place) const {
    return static_cast<size_t>(std::find(line_.begin(), line_.end(), place) - line_.begin());
  }

  std::mutex mutex_;
  std::vector<Place *> holders_;
  std::deque<Place *> line_;
  AdmissionFigures figures_{};
};

namespace {
Admission admission;
}

void Admission::enter(Place *place) {
  std::unique_lock<std::mutex> guard(mutex_);
  if (line_.empty() && holders_.size() < places()) {
    give(place);
    return;
  }
  const Clock::time_point begin = Clock::now();
  place->state_ = Place::State::WAITING;
  line_.push_back(place);
  guard.unlock();
  thd_wait_begin(place->thd_, THD_WAIT_ROW_LOCK);
  /* A kill that came before cancel() could meet this wait. */
  const bool killed = thd_kill_level(place->thd_) != THD_IS_NOT_KILLED;
  guard.lock();
  if (killed && place->state_ == Place::State::WAITING) place->state_ = Place::State::CANCELLED;
  while (place->state_ == Place::State::WAITING) {
    if (place->changed_.wait_for(guard, LOOK * (position(place) + 1)) == std::cv_status::timeout) {
      take_unused();
      give_free();
    }
  }
  if (place->state_ == Place::State::CANCELLED) {
    line_.erase(std::find(line_.begin(), line_.end(), place));
    place->state_ = Place::State::NONE;
    give_free();
  }
  figures_.waits++;
  figures_.wait_us += static_cast<ulonglong>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  guard.unlock();
  thd_wait_end(place->thd_);
}

void Admission::leave(Place *place) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (place->state_ != Place::State::HELD) return; /* taken away */
  take(place);
  give_free();
}

void Admission::cancel(Place *place) {
  std::lock_guard<std::mutex> guard(mutex_);
  if (place->state_ != Place::State::WAITING) return;
  place->state_ = Place::State::CANCELLED;
  place->changed_.notify_one();
}

void Place::enter() {
  /* What a replica applies has its order already. */
  if (entered_ || !thd_->spcont || is_applier(thd_)) return;
  entered_ = true;
  admission.enter(this);
}

void Place::leave() {
  if (!entered_) return;
  entered_ = false;
  admission.leave(this);
}

void Place::cancel() { admission.cancel(this); }

AdmissionFigures admission_figures() { return admission.figures(); }

}  // namespace tidesdb
