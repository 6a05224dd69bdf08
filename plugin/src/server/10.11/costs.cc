/*
  Costs of an access for the optimizer of MariaDB 10.11. Its unit is a row found by an entry of an index.
*/
#include "handler_base.h"
#include "server.h"

namespace tidesdb {

namespace {

/* The milliseconds of server/11.8/costs.cc in that unit, which is 0.00168 of them: converted, not measured.
 */
constexpr double NEXT_ROW = 0.08;
constexpr double NEXT_ENTRY = 0.06;

}  // namespace

/* The handler's own functions tell the costs. */
void register_costs(handlerton *) {}

double ServerHandler::scan_time() { return 1 + NEXT_ROW * rows2double(stats.records); }

double ServerHandler::read_time(uint index, uint ranges, ha_rows rows) {
  return ranges + rows2double(rows) * (is_clustered(index) ? NEXT_ROW : 1);
}

double ServerHandler::keyread_time(uint index, uint ranges, ha_rows rows) {
  return ranges + rows2double(rows) * (is_clustered(index) ? NEXT_ROW : NEXT_ENTRY);
}

}  // namespace tidesdb
