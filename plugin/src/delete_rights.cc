#include "delete_rights.h"

#include "sql_class.h"

#include "sql_acl.h"
#include "table.h"

#include "errors.h"
#include "txn/applier.h"

namespace tidesdb {

namespace {

/* The server's calls for it go by the connection's present user. */
class ActAs {
 public:
  ActAs(THD *thd, Security_context *user) : thd_(thd), present_(thd->security_ctx) {
    thd->security_ctx = user;
  }
  ~ActAs() { thd_->security_ctx = present_; }
  ActAs(const ActAs &) = delete;
  ActAs &operator=(const ActAs &) = delete;

 private:
  THD *thd_;
  Security_context *present_;
};

bool may_delete(THD *thd, Security_context *user, const LEX_CSTRING &database, const LEX_CSTRING &name) {
  if (user->master_access & DELETE_ACL) return true;
  if (acl_get_all3(user, database.str, false) & DELETE_ACL) return true;
  const ActAs as(thd, user);
  TABLE_LIST table;
  table.init_one_table(&database, &name, nullptr, TL_READ);
  return (get_table_grant(thd, &table) & DELETE_ACL) != NO_ACL;
}

/* Of a view's tables the server asks its definer, and the view's user for the view. */
Security_context *user_of(const TABLE_LIST *named, Security_context *user) {
  for (const TABLE_LIST *view = named->referencing_view; view; view = view->referencing_view)
    if (view->view_suid) return view->view_sctx;
  return user;
}

bool refuses(THD *thd, const TABLE_LIST *named, Security_context *user) {
  for (; named; named = named->referencing_view) {
    Security_context *asked = user_of(named, user);
    const LEX_CSTRING &database = named->view ? named->view_db : named->db;
    const LEX_CSTRING &name = named->view ? named->view_name : named->table_name;
    if (may_delete(thd, asked, database, name)) continue;
    my_error(ER_TABLEACCESS_DENIED_ERROR, MYF(0), "DELETE", asked->priv_user, asked->host_or_ip, database.str,
             name.str);
    note_once(
        thd, ER_TABLEACCESS_DENIED_ERROR,
        "TidesDB: rows with a time to live (tidesdb_ttl, TTL) go by themselves: giving it needs DELETE");
    return true;
  }
  return false;
}

}  // namespace

bool lacks_delete_right(THD *thd, const TABLE_LIST *named, GivenBy given_by) {
  if (is_applier(thd) || applies_rows(thd) || !named) return false;
  if (refuses(thd, named, thd->security_ctx)) return true;
  return given_by == GivenBy::SESSION && thd->security_ctx != &thd->main_security_ctx &&
         refuses(thd, named, &thd->main_security_ctx);
}

}  // namespace tidesdb
