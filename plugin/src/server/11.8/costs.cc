/*
  Costs of an access for the optimizer of MariaDB 11.8: milliseconds for each row or key, as `make costs`
  measures them against InnoDB (docs/optimizer.md).
*/
#include "server.h"

#include "optimizer_costs.h"

namespace tidesdb {

namespace {

void update_costs(OPTIMIZER_COSTS *costs) {
  costs->row_next_find_cost = 0.000074;
  costs->row_lookup_cost = 0.000850;
  costs->key_next_find_cost = 0.000104;
  costs->key_lookup_cost = 0.000830;
  costs->row_copy_cost = 0.00006087;
}

}  // namespace

void register_costs(handlerton *hton) { hton->update_optimizer_costs = update_costs; }

}  // namespace tidesdb
