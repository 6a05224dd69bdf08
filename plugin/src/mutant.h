/*
  Faults planted in the support of Galera clusters, one at a time, for `make mutants-cluster`. The environment
  variable TIDESDB_PLUGIN_MUTANT names one. Each takes an invariant of docs/design/0031-galera.md away, and a
  check or a test has to notice it. All builds but build/mutants lack them: MUTANT() is the constant false
  there.
*/
#ifndef TIDESDB_MUTANT_H
#define TIDESDB_MUTANT_H

/* Name, number of the invariant, fault. scripts/test/mutants-cluster.py reads this list. */
#define TIDESDB_MUTANTS(X)                                                                   \
  X(PrimaryKeyUngiven, 1, "a changed row's primary key is not in the write set")             \
  X(UniqueKeyUngiven, 1, "a changed row's other unique keys are not in the write set")       \
  X(DigestUngiven, 1, "a row without a key has no digest in the write set")                  \
  X(NullCountsAsKey, 1, "a row whose unique keys are all NULL has no digest")                \
  X(ParentUngiven, 1, "a child's row has no reference to its parent in the write set")       \
  X(ActionUngiven, 1, "a row that an action changes has no key in the write set")            \
  X(SavepointStays, 1, "rows that ROLLBACK TO SAVEPOINT undoes stay in the write set")       \
  X(KillAfterCertification, 2, "a certified transaction hears a kill")                       \
  X(HooksForEachEngine, 3, "transactions are registered with the flag of replication")       \
  X(HooksAgain, 3, "the hooks run again where InnoDB came first")                            \
  X(OrderLeftFirst, 4, "a commit in one phase leaves the order before it has its place")     \
  X(OrderLeftUnwritten, 5, "a commit in one phase leaves the order before it is written")    \
  X(PositionOutsideRecord, 6, "a commit's record has no position")                           \
  X(InnodbUnwritten, 6, "a position is recorded before InnoDB's log is written")             \
  X(BinaryLogFirst, 6, "the binary log has a transaction before InnoDB's log is written")    \
  X(InnodbSkipped, 6, "InnoDB's log is not written after a transaction of InnoDB alone")     \
  X(UnknownIsKnown, 6, "a position counts whatever ended the last server")                   \
  X(PreparedRolledBack, 6, "prepared transactions roll back, those before the position too") \
  X(PriorityUnset, 7, "an applier's locks have no priority")                                 \
  X(HolderSpared, 7, "nobody aborts the holder of a lock that an applier waits for")         \
  X(VictimSleeps, 7, "an aborted transaction that waits for a lock is not woken")            \
  X(MarkedVictimSleeps, 7, "nobody wakes sessions that hold a metadata lock in the way")     \
  X(KeyNumberDiffers, 8, "the first byte of a key is not InnoDB's number of the index")      \
  X(HalfTransferOpened, 10, "a store with half a state is opened")                           \
  X(CheckpointLater, 10, "a donor's checkpoint has a later moment than InnoDB's files")

namespace tidesdb {

/* Microseconds by which a fault in the order of two steps takes them apart. */
constexpr unsigned long MUTANT_DELAY = 20000;

enum class Mutant {
#define TIDESDB_MUTANT_NAME(name, invariant, fault) name,
  TIDESDB_MUTANTS(TIDESDB_MUTANT_NAME)
#undef TIDESDB_MUTANT_NAME
};

#ifdef TIDESDB_PLUGIN_MUTANTS
bool is_planted(Mutant mutant);
#define MUTANT(name) ::tidesdb::is_planted(::tidesdb::Mutant::name)
#else
#define MUTANT(name) false
#endif

}  // namespace tidesdb
#endif
