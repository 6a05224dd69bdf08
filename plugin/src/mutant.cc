#include "mutant.h"

#ifdef TIDESDB_PLUGIN_MUTANTS

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace tidesdb {

namespace {

constexpr int NONE = -1;

int planted_number() {
  const char *wanted = getenv("TIDESDB_PLUGIN_MUTANT");
  if (!wanted || !*wanted) return NONE;
#define TIDESDB_MUTANT_NUMBER(name, invariant, fault) \
  if (!strcmp(wanted, #name)) return static_cast<int>(Mutant::name);
  TIDESDB_MUTANTS(TIDESDB_MUTANT_NUMBER)
#undef TIDESDB_MUTANT_NUMBER
  fprintf(stderr, "TidesDB: TIDESDB_PLUGIN_MUTANT: there is no fault '%s' to plant\n", wanted);
  abort();
}

}  // namespace

bool is_planted(Mutant mutant) {
  static const int planted = planted_number();
  return static_cast<int>(mutant) == planted;
}

}  // namespace tidesdb

#endif
