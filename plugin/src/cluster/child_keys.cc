#include "cluster/child_keys.h"

#include <map>
#include <vector>

#include "cluster/wsrep_service.h"
#include "foreign/registry.h"

namespace tidesdb::cluster {

/* As the server goes through them: a child that is read comes once more if it is changed later. */
int append_child_keys(THD *thd, const std::string &table) {
  std::map<std::string, bool> changed; /* by child */
  std::vector<std::string> parents{table};
  for (size_t next = 0; next < parents.size(); next++) {
    for (const auto &key : foreign::keys_to(parents[next])) {
      const bool changes = fk_modifies_child(key->on_update);
      const auto known = changed.find(key->child);
      if (known != changed.end() && known->second >= changes) continue;
      changed[key->child] = changes;
      if (wsrep_thd_append_table_key(thd, key->child_database.c_str(), key->child_table.c_str(),
                                     WSREP_SERVICE_KEY_SHARED))
        return HA_ERR_INTERNAL_ERROR;
      if (changes) parents.push_back(key->child);
    }
  }
  return 0;
}

}  // namespace tidesdb::cluster
