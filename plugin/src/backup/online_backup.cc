#include "backup/online_backup.h"

#include <mysql/plugin.h>

#include <unistd.h>

#include <memory>
#include <string>

#include "log.h"
#include "mysqld.h"
#include "sql_class.h"
#include "sql_acl.h"
#include "sql_repl.h"

#include "backup/definitions.h"
#include "backup/server_locks.h"
#include "backup/stage_moment.h"
#include "store/home.h"
#include "store/store.h"
#include "sysvars.h"

namespace tidesdb {

namespace {

struct JobCloser {
  void operator()(tidesdb_backup_job *job) const { tidesdb_backup_abandon(job); }
};
using Job = std::unique_ptr<tidesdb_backup_job, JobCloser>;

/* What SHOW PROCESSLIST says, until the end of a step. */
class Stage {
 public:
  Stage(THD *thd, const char *what) : thd_(thd), before_(thd_proc_info(thd, what)) {}
  ~Stage() { thd_proc_info(thd_, before_); }
  Stage(const Stage &) = delete;
  Stage &operator=(const Stage &) = delete;

 private:
  THD *thd_;
  const char *before_;
};

int stop(void *thd) { return thd_kill_level(static_cast<THD *>(thd)) >= THD_ABORT_SOFTLY; }

void progress(void *thd, uint64_t done, uint64_t total) {
  thd_progress_report(static_cast<THD *>(thd), done, total);
}

/* Where the binary log stands, for whoever goes on from the backup. */
struct Position {
  bool logged = false;
  std::string file;
  ulonglong offset = 0;
  std::string binlog_gtid, slave_gtid;
};

bool gtids(Position *position) {
  String binlog, slave;
  if (position->logged && mysql_bin_log.append_state_pos(&binlog)) return true;
  if (rpl_append_gtid_state(&slave, false)) return true;
  position->binlog_gtid.assign(binlog.ptr(), binlog.length());
  position->slave_gtid.assign(slave.ptr(), slave.length());
  return false;
}

/* No transaction commits meanwhile. What writes the log without one (rotation, statements on TEMPORARY
   tables) may: the place is read on both sides of the GTIDs. */
bool read_position(Position *position) {
  position->logged = mysql_bin_log.is_open();
  if (!position->logged) return gtids(position);
  for (;;) {
    LOG_INFO before, after;
    if (mysql_bin_log.get_current_log(&before) || gtids(position) || mysql_bin_log.get_current_log(&after))
      return true;
    if (before.pos != after.pos || strcmp(before.log_file_name, after.log_file_name)) continue;
    position->file = before.log_file_name + dirname_length(before.log_file_name);
    position->offset = before.pos;
    return false;
  }
}

void note_left_out(void *thd, const char *file, const char *family) {
  push_warning_printf(static_cast<THD *>(thd), Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                      "TidesDB: '%s' is damaged: its file '%s' is not in the backup", family, file);
}

class OnlineBackup {
 public:
  OnlineBackup(THD *thd, const char *directory, bool links)
      : thd_(thd),
        directory_(directory),
        links_(links),
        at_stage_(sysvars::backup_options(thd) & sysvars::BACKUP_AT_STAGE),
        locks_(thd),
        watch_{thd, stop, progress} {}

  bool run() {
    if (refused() || begin()) return true;
    if (at_stage_ ? take_point_at_stage() : take_point() || copy_definitions()) return true;
    locks_.release();
    return finish();
  }

 private:
  const char *what() const { return links_ ? "checkpoint" : "backup"; }

  bool fail(const char *why) {
    my_printf_error(ER_UNKNOWN_ERROR, "TidesDB: %s into '%s': %s", MYF(0), what(), directory_.c_str(), why);
    return true;
  }

  bool failed(int status) {
    if (status == TIDESDB_OK) return false;
    if (status == TIDESDB_INTERRUPTED) {
      thd_->send_kill_message();
      return true;
    }
    if (status != TIDESDB_DISK_FULL) return fail(tidesdb_last_error());
    my_printf_error(ER_DISK_FULL, "TidesDB: %s into '%s': %s; nothing of it is left", MYF(0), what(),
                    directory_.c_str(), tidesdb_last_error());
    return true;
  }

  /* The path as it is given must resolve to a place inside, as those of SELECT ... INTO OUTFILE must. */
  bool lies_outside_secure_file_priv(std::string path) {
    while (path.size() > 1 && path.back() == '/') path.pop_back();
    if (is_secure_file_path(&path[0])) return false;
    /* A place inside that cannot be made is no place outside; what ".." leads to is not known then. */
    const std::string parent = path.substr(0, path.find_last_of('/'));
    if (opt_secure_file_priv && path.rfind(opt_secure_file_priv, 0) == 0 &&
        path.find("..") == std::string::npos && access(parent.c_str(), F_OK) != 0)
      return fail(("there is no directory '" + parent + "'; make it, or mount its disk").c_str());
    my_error(ER_OPTION_PREVENTS_STATEMENT, MYF(0), "--secure-file-priv");
    return true;
  }

  bool refused() {
    if (check_global_access(thd_, FILE_ACL)) return true;
    if (thd_->locked_tables_mode || thd_->in_active_multi_stmt_transaction() || thd_->in_sub_stmt) {
      my_error(ER_LOCK_OR_ACTIVE_TRANSACTION, MYF(0));
      return true;
    }
    if (thd_->current_backup_stage != BACKUP_FINISHED) {
      my_error(ER_BACKUP_LOCK_IS_ACTIVE, MYF(0));
      return true;
    }
    if (thd_->global_read_lock.is_acquired()) {
      my_error(ER_CANT_UPDATE_WITH_READLOCK, MYF(0));
      return true;
    }
    if (!plugin.db || !plugin.ddl_recovery_done) return fail("the server is starting");
    if (directory_[0] != '/') return fail("not an absolute path");
    data_directory_ = real_place(mysql_real_data_home);
    const std::string place = real_place(directory_) + "/", data = data_directory_ + "/";
    if (place.rfind(data, 0) == 0 || data.rfind(place, 0) == 0)
      return fail("it lies in the data directory, or around it; give it a directory of its own");
    const char *base = sysvars::backup_base(thd_);
    if (*base && base[0] != '/') return fail("tidesdb_backup_base is not an absolute path");
    return lies_outside_secure_file_priv(directory_) || (*base && lies_outside_secure_file_priv(base));
  }

  bool begin() {
    tidesdb_backup_job *job = nullptr;
    const int status = tidesdb_backup_begin(plugin.db, directory_.c_str(), links_, &job);
    job_.reset(job);
    return failed(status) || set_options();
  }

  bool set_options() {
    const char *base = sysvars::backup_base(thd_);
    if (failed(tidesdb_backup_set_rate(job_.get(), sysvars::backup_rate(thd_)))) return true;
    if (*base && failed(tidesdb_backup_set_base(job_.get(), base))) return true;
    if (!(sysvars::backup_options(thd_) & sysvars::BACKUP_WITHOUT_DAMAGED)) return false;
    return failed(tidesdb_backup_leave_out_damaged(job_.get(), note_left_out, thd_));
  }

  bool take_point() {
    if (locks_.hold_definitions() || locks_.hold_commits()) return true;
    uint64_t sequence;
    const int status = tidesdb_backup_point(job_.get(), &watch_, &sequence);
    const bool unknown = status == TIDESDB_OK && read_position(&position_);
    locks_.release_commits();
    if (unknown) return fail("the position of the binary log cannot be read");
    return failed(status);
  }

  /* The holder of the stage stops definitions and commits, until the end of the moment. */
  bool take_point_at_stage() {
    StageMoment moment;
    {
      const Stage stage(thd_, "TidesDB: waiting for BACKUP STAGE BLOCK_COMMIT");
      switch (moment.wait(thd_)) {
        case StageMoment::Wait::HELD:
          break;
        case StageMoment::Wait::KILLED:
          return failed(TIDESDB_INTERRUPTED);
        case StageMoment::Wait::TIMEOUT:
          return fail(
              "nobody came to FLUSH ENGINE LOGS in BACKUP STAGE BLOCK_COMMIT within lock_wait_timeout");
      }
    }
    const ulonglong since = microsecond_interval_timer();
    uint64_t sequence;
    if (failed(tidesdb_backup_point(job_.get(), &watch_, &sequence))) return true;
    if (read_position(&position_)) return fail("the position of the binary log cannot be read");
    if (copy_definitions()) return true;
    held_us_ = microsecond_interval_timer() - since;
    return moment.end() && fail("BACKUP STAGE BLOCK_COMMIT ended in the moment of the backup");
  }

  bool copy_definitions() {
    const Stage stage(thd_, "TidesDB: copying definitions");
    Definitions definitions;
    if (failed(list_definitions(data_directory_, &definitions))) return true;
    for (const std::string &file : definitions.files) {
      if (stop(thd_)) return failed(TIDESDB_INTERRUPTED);
      const std::string from = data_directory_ + "/" + file;
      if (failed(tidesdb_backup_add_file(job_.get(), from.c_str(), file.c_str()))) return true;
    }
    for (const std::string &table : definitions.missing)
      push_warning_printf(thd_, Sql_condition::WARN_LEVEL_WARN, ER_UNKNOWN_ERROR,
                          "TidesDB: table '%s' has no .frm file in the data directory, and none in the %s",
                          table.c_str(), what());
    return false;
  }

  bool note(const char *name, const std::string &value) {
    return failed(tidesdb_backup_note(job_.get(), name, value.c_str()));
  }

  bool finish() {
    if (note("server_version", server_version) ||
        note("server_id", std::to_string(thd_->variables.server_id)) ||
        note("commits_held_us", std::to_string(at_stage_ ? held_us_ : locks_.held_us())) ||
        (position_.logged &&
         (note("binlog_file", position_.file) || note("binlog_position", std::to_string(position_.offset)) ||
          note("gtid_binlog_pos", position_.binlog_gtid))) ||
        note("gtid_slave_pos", position_.slave_gtid))
      return true;
    const Stage stage(thd_, links_ ? "TidesDB: linking tables" : "TidesDB: copying tables");
    thd_progress_init(thd_, 1);
    const int status = tidesdb_backup_finish(job_.release(), &watch_);
    thd_progress_end(thd_);
    if (failed(status)) return true;
    tell();
    return false;
  }

  void tell() {
    if (!position_.logged) {
      push_warning_printf(thd_, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                          "TidesDB: %s in '%s'; the binary log is off", what(), directory_.c_str());
      return;
    }
    push_warning_printf(thd_, Sql_condition::WARN_LEVEL_NOTE, ER_UNKNOWN_ERROR,
                        "TidesDB: %s in '%s', binary log '%s' position %llu, GTID '%s'", what(),
                        directory_.c_str(), position_.file.c_str(), position_.offset,
                        position_.binlog_gtid.c_str());
  }

  THD *thd_;
  std::string directory_;
  bool links_;
  bool at_stage_;
  ulonglong held_us_ = 0;
  std::string data_directory_;
  ServerLocks locks_;
  tidesdb_watch watch_;
  Job job_;
  Position position_;
};

}  // namespace

bool take_backup(THD *thd, const char *directory, bool links) {
  return OnlineBackup(thd, directory, links).run();
}

}  // namespace tidesdb
