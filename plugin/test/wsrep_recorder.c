/*
  A provider for Galera's interface that is one node alone and writes down what the server gives it.

  It takes every write set and certifies nothing. Tests compare what InnoDB and TidesDB append for one change.
  Options of wsrep_provider_options, which may change while the server runs:

    record.file=PATH   lines go to the end of this file
    record.mark=TEXT   writes the line `mark TEXT`

  Lines of the file:

    key TYPE PART ...     a key of a row: shared, reference, update or exclusive; parts in hexadecimal digits
    data BYTES            row events
    certify FLAGS         a transaction is complete; flags of the header of that interface, in hexadecimal digits
    total                 a statement in total order isolation
*/
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "wsrep_api.h"
#include "wsrep_config_service.h"

/* Of a write set that the provider has to know between its calls: nothing. */
static int in_use;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct wsrep_init_args server;
static char server_name[WSREP_MEMBER_NAME_LEN], server_address[WSREP_INCOMING_LEN];
static int connected, viewed, leaving, left;
static wsrep_gtid_t last, committed;
static FILE *record;
static char record_path[4096];

static const wsrep_uuid_t NODE = {{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}};
static const wsrep_uuid_t CLUSTER = {{16, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1}};

static void open_record(const char *path) {
  if (record) fclose(record);
  snprintf(record_path, sizeof(record_path), "%s", path);
  record = fopen(path, "a");
}

/* Options are `name=value` with semicolons between them. Unknown ones are left out: they are Galera's. */
static void take_options(const char *options) {
  char text[8192], *rest = text, *option;
  snprintf(text, sizeof(text), "%s", options ? options : "");
  while ((option = strsep(&rest, ";"))) {
    while (*option == ' ') option++;
    char *value = strchr(option, '=');
    if (!value) continue;
    *value++ = 0;
    while (*value == ' ') value++;
    if (!strncmp(option, "record.file", 11)) open_record(value);
    if (!strncmp(option, "record.mark", 11) && record) {
      fprintf(record, "mark %s\n", value);
      fflush(record);
    }
  }
}

static wsrep_status_t init(wsrep_t *wsrep, const struct wsrep_init_args *args) {
  (void)wsrep;
  server = *args;
  snprintf(server_name, sizeof(server_name), "%s", args->node_name ? args->node_name : "");
  snprintf(server_address, sizeof(server_address), "%s", args->node_incoming ? args->node_incoming : "");
  take_options(args->options);
  last.uuid = committed.uuid = CLUSTER;
  last.seqno = committed.seqno = 0;
  /* A node that starts again goes on after its last transaction. */
  if (args->state_id && !memcmp(args->state_id->uuid.data, CLUSTER.data, sizeof(CLUSTER.data)) &&
      args->state_id->seqno > 0)
    last.seqno = committed.seqno = args->state_id->seqno;
  return WSREP_OK;
}

static wsrep_cap_t capabilities(wsrep_t *wsrep) {
  (void)wsrep;
  return WSREP_CAP_MULTI_MASTER | WSREP_CAP_CERTIFICATION | WSREP_CAP_PARALLEL_APPLYING |
         WSREP_CAP_TRX_REPLAY | WSREP_CAP_ISOLATION | WSREP_CAP_PAUSE | WSREP_CAP_CAUSAL_READS |
         WSREP_CAP_INCREMENTAL_WRITESET | WSREP_CAP_UNORDERED | WSREP_CAP_STREAMING;
}

static wsrep_status_t options_set(wsrep_t *wsrep, const char *options) {
  (void)wsrep;
  pthread_mutex_lock(&mutex);
  take_options(options);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static char *options_get(wsrep_t *wsrep) {
  (void)wsrep;
  char text[sizeof(record_path) + 32];
  snprintf(text, sizeof(text), "record.file = %s; ", record_path);
  return strdup(text);
}

static wsrep_status_t enc_set_key(wsrep_t *wsrep, const wsrep_enc_key_t *key) {
  (void)wsrep, (void)key;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_status_t connect_node(wsrep_t *wsrep, const char *name, const char *url, const char *donor,
                                   wsrep_bool_t bootstrap) {
  (void)wsrep, (void)name, (void)url, (void)donor, (void)bootstrap;
  pthread_mutex_lock(&mutex);
  connected = 1;
  leaving = left = viewed = 0;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static wsrep_status_t disconnect(wsrep_t *wsrep) {
  (void)wsrep;
  pthread_mutex_lock(&mutex);
  leaving = 1;
  connected = 0;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static void show_view(void *context, wsrep_view_status_t status, int members) {
  wsrep_view_info_t view;
  memset(&view, 0, sizeof(view));
  view.state_id = last;
  view.view = 1;
  view.status = status;
  view.capabilities = capabilities(NULL);
  view.my_idx = members ? 0 : -1;
  view.memb_num = members;
  view.proto_ver = server.proto_ver;
  view.members[0].id = NODE;
  memcpy(view.members[0].name, server_name, sizeof(server_name));
  memcpy(view.members[0].incoming, server_address, sizeof(server_address));
  if (members) server.connected_cb(server.app_ctx, &view);
  server.view_cb(server.app_ctx, context, &view, NULL, 0);
}

/* Called by each applier; the first tells the server that the node is a cluster, and the last view. */
static wsrep_status_t receive(wsrep_t *wsrep, void *context) {
  (void)wsrep;
  pthread_mutex_lock(&mutex);
  while (!connected && !leaving) pthread_cond_wait(&changed, &mutex);
  const int first = connected && !viewed;
  viewed = 1;
  if (first) last.seqno = committed.seqno = last.seqno + 1;
  pthread_mutex_unlock(&mutex);
  if (first) {
    show_view(context, WSREP_VIEW_PRIMARY, 1);
    server.synced_cb(server.app_ctx);
  }
  pthread_mutex_lock(&mutex);
  while (!leaving) pthread_cond_wait(&changed, &mutex);
  const int says_end = !left;
  left = 1;
  pthread_mutex_unlock(&mutex);
  if (says_end) show_view(context, WSREP_VIEW_DISCONNECTED, 0);
  return WSREP_OK;
}

static wsrep_status_t assign_read_view(wsrep_t *wsrep, wsrep_ws_handle_t *handle, const wsrep_gtid_t *view) {
  (void)wsrep, (void)handle, (void)view;
  return WSREP_NOT_IMPLEMENTED;
}

static void give_place(wsrep_trx_id_t transaction, wsrep_conn_id_t connection, wsrep_trx_meta_t *meta) {
  last.seqno++;
  meta->gtid = last;
  meta->stid.node = NODE;
  meta->stid.trx = transaction;
  meta->stid.conn = connection;
  meta->depends_on = last.seqno - 1;
}

static wsrep_status_t certify(wsrep_t *wsrep, wsrep_conn_id_t connection, wsrep_ws_handle_t *handle,
                              uint32_t flags, wsrep_trx_meta_t *meta) {
  (void)wsrep;
  pthread_mutex_lock(&mutex);
  if (record) {
    fprintf(record, "certify %x\n", flags);
    fflush(record);
  }
  give_place(handle->trx_id, connection, meta);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static void wait_for_turn(const wsrep_trx_meta_t *meta) {
  pthread_mutex_lock(&mutex);
  while (committed.seqno < meta->gtid.seqno - 1) pthread_cond_wait(&changed, &mutex);
  pthread_mutex_unlock(&mutex);
}

static void end_turn(wsrep_seqno_t seqno) {
  pthread_mutex_lock(&mutex);
  if (committed.seqno < seqno) committed.seqno = seqno;
  pthread_cond_broadcast(&changed);
  pthread_mutex_unlock(&mutex);
}

static wsrep_status_t commit_order_enter(wsrep_t *wsrep, const wsrep_ws_handle_t *handle,
                                         const wsrep_trx_meta_t *meta) {
  (void)wsrep, (void)handle;
  wait_for_turn(meta);
  return WSREP_OK;
}

static wsrep_status_t commit_order_leave(wsrep_t *wsrep, const wsrep_ws_handle_t *handle,
                                         const wsrep_trx_meta_t *meta, const wsrep_buf_t *error) {
  (void)wsrep, (void)handle, (void)error;
  end_turn(meta->gtid.seqno);
  return WSREP_OK;
}

static wsrep_status_t release(wsrep_t *wsrep, wsrep_ws_handle_t *handle) {
  (void)wsrep;
  handle->opaque = NULL;
  return WSREP_OK;
}

static wsrep_status_t replay_trx(wsrep_t *wsrep, const wsrep_ws_handle_t *handle, void *context) {
  (void)wsrep, (void)handle, (void)context;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_status_t abort_certification(wsrep_t *wsrep, wsrep_seqno_t by, wsrep_trx_id_t victim,
                                          wsrep_seqno_t *victim_seqno) {
  (void)wsrep, (void)by, (void)victim;
  *victim_seqno = WSREP_SEQNO_UNDEFINED;
  return WSREP_OK;
}

static wsrep_status_t roll_back(wsrep_t *wsrep, wsrep_trx_id_t transaction, const wsrep_buf_t *data) {
  (void)wsrep, (void)transaction, (void)data;
  return WSREP_OK;
}

static wsrep_status_t append_key(wsrep_t *wsrep, wsrep_ws_handle_t *handle, const wsrep_key_t *keys,
                                 size_t count, enum wsrep_key_type type, wsrep_bool_t copy) {
  static const char *const TYPES[] = {"shared", "reference", "update", "exclusive"};
  (void)wsrep, (void)copy;
  handle->opaque = &in_use;
  pthread_mutex_lock(&mutex);
  for (size_t key = 0; record && key < count; key++) {
    fprintf(record, "key %s", TYPES[type]);
    for (size_t part = 0; part < keys[key].key_parts_num; part++) {
      const unsigned char *bytes = keys[key].key_parts[part].ptr;
      fputc(' ', record);
      for (size_t i = 0; i < keys[key].key_parts[part].len; i++) fprintf(record, "%02x", bytes[i]);
    }
    fputc('\n', record);
  }
  if (record) fflush(record);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static wsrep_status_t append_data(wsrep_t *wsrep, wsrep_ws_handle_t *handle, const wsrep_buf_t *data,
                                  size_t count, enum wsrep_data_type type, wsrep_bool_t copy) {
  (void)wsrep, (void)type, (void)copy;
  handle->opaque = &in_use;
  size_t bytes = 0;
  for (size_t i = 0; i < count; i++) bytes += data[i].len;
  pthread_mutex_lock(&mutex);
  if (record) fprintf(record, "data %zu\n", bytes), fflush(record);
  pthread_mutex_unlock(&mutex);
  return WSREP_OK;
}

static wsrep_status_t sync_wait(wsrep_t *wsrep, wsrep_gtid_t *upto, int seconds, wsrep_gtid_t *gtid) {
  (void)wsrep, (void)upto, (void)seconds;
  if (gtid) *gtid = committed;
  return WSREP_OK;
}

static wsrep_status_t last_committed_id(wsrep_t *wsrep, wsrep_gtid_t *gtid) {
  (void)wsrep;
  *gtid = committed;
  return WSREP_OK;
}

static wsrep_status_t free_connection(wsrep_t *wsrep, wsrep_conn_id_t connection) {
  (void)wsrep, (void)connection;
  return WSREP_OK;
}

static wsrep_status_t to_execute_start(wsrep_t *wsrep, wsrep_conn_id_t connection, const wsrep_key_t *keys,
                                       size_t keys_count, const wsrep_buf_t *action, size_t count,
                                       uint32_t flags, wsrep_trx_meta_t *meta) {
  (void)wsrep, (void)keys, (void)keys_count, (void)action, (void)count, (void)flags;
  pthread_mutex_lock(&mutex);
  if (record) fprintf(record, "total\n"), fflush(record);
  give_place(0, connection, meta);
  pthread_mutex_unlock(&mutex);
  wait_for_turn(meta);
  return WSREP_OK;
}

/* Of one statement at a time: its turn is the one that nobody has ended. */
static wsrep_status_t to_execute_end(wsrep_t *wsrep, wsrep_conn_id_t connection, const wsrep_buf_t *error) {
  (void)wsrep, (void)connection, (void)error;
  end_turn(committed.seqno + 1);
  return WSREP_OK;
}

static wsrep_status_t preordered_collect(wsrep_t *wsrep, wsrep_po_handle_t *handle, const wsrep_buf_t *data,
                                         size_t count, wsrep_bool_t copy) {
  (void)wsrep, (void)handle, (void)data, (void)count, (void)copy;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_status_t preordered_commit(wsrep_t *wsrep, wsrep_po_handle_t *handle, const wsrep_uuid_t *source,
                                        uint32_t flags, int range, wsrep_bool_t commit) {
  (void)wsrep, (void)handle, (void)source, (void)flags, (void)range, (void)commit;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_status_t sst_sent(wsrep_t *wsrep, const wsrep_gtid_t *state, int result) {
  (void)wsrep, (void)state, (void)result;
  return WSREP_OK;
}

static wsrep_status_t sst_received(wsrep_t *wsrep, const wsrep_gtid_t *id, const wsrep_buf_t *state,
                                   int result) {
  (void)wsrep, (void)id, (void)state, (void)result;
  return WSREP_OK;
}

static wsrep_status_t snapshot(wsrep_t *wsrep, const wsrep_buf_t *message, const char *donor) {
  (void)wsrep, (void)message, (void)donor;
  return WSREP_NOT_IMPLEMENTED;
}

static struct wsrep_stats_var no_variables[1];

static struct wsrep_stats_var *stats_get(wsrep_t *wsrep) {
  (void)wsrep;
  return no_variables;
}

static void stats_free(wsrep_t *wsrep, struct wsrep_stats_var *variables) { (void)wsrep, (void)variables; }

static void stats_reset(wsrep_t *wsrep) { (void)wsrep; }

static wsrep_seqno_t pause_node(wsrep_t *wsrep) {
  (void)wsrep;
  return committed.seqno;
}

static wsrep_status_t succeed(wsrep_t *wsrep) {
  (void)wsrep;
  return WSREP_OK;
}

static wsrep_status_t lock(wsrep_t *wsrep, const char *name, wsrep_bool_t shared, uint64_t owner,
                           int64_t timeout) {
  (void)wsrep, (void)name, (void)shared, (void)owner, (void)timeout;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_status_t unlock(wsrep_t *wsrep, const char *name, uint64_t owner) {
  (void)wsrep, (void)name, (void)owner;
  return WSREP_NOT_IMPLEMENTED;
}

static wsrep_bool_t is_locked(wsrep_t *wsrep, const char *name, uint64_t *owner, wsrep_uuid_t *node) {
  (void)wsrep, (void)name, (void)owner, (void)node;
  return 0;
}

static void free_provider(wsrep_t *wsrep) {
  (void)wsrep;
  if (record) fclose(record);
  record = NULL;
}

/* The server asks a provider to take its list of addresses. All are welcome. */
int wsrep_init_allowlist_service_v1(void *service) {
  (void)service;
  return WSREP_OK;
}

void wsrep_deinit_allowlist_service_v1(void) {}

/* It also asks for a list of options. There is none. */
static wsrep_status_t get_parameters(wsrep_t *wsrep, wsrep_get_parameters_cb take, void *context) {
  (void)wsrep, (void)take, (void)context;
  return WSREP_OK;
}

int wsrep_init_config_service_v1(wsrep_config_service_v1_t *service) {
  service->get_parameters = get_parameters;
  return WSREP_OK;
}

void wsrep_deinit_config_service_v1(void) {}

const char *const wsrep_interface_version = WSREP_INTERFACE_VERSION;

int wsrep_loader(wsrep_t *wsrep) {
  static const wsrep_t PROVIDER = {
      .version = WSREP_INTERFACE_VERSION,
      .init = init,
      .capabilities = capabilities,
      .options_set = options_set,
      .options_get = options_get,
      .enc_set_key = enc_set_key,
      .connect = connect_node,
      .disconnect = disconnect,
      .recv = receive,
      .assign_read_view = assign_read_view,
      .certify = certify,
      .commit_order_enter = commit_order_enter,
      .commit_order_leave = commit_order_leave,
      .release = release,
      .replay_trx = replay_trx,
      .abort_certification = abort_certification,
      .rollback = roll_back,
      .append_key = append_key,
      .append_data = append_data,
      .sync_wait = sync_wait,
      .last_committed_id = last_committed_id,
      .free_connection = free_connection,
      .to_execute_start = to_execute_start,
      .to_execute_end = to_execute_end,
      .preordered_collect = preordered_collect,
      .preordered_commit = preordered_commit,
      .sst_sent = sst_sent,
      .sst_received = sst_received,
      .snapshot = snapshot,
      .stats_get = stats_get,
      .stats_free = stats_free,
      .stats_reset = stats_reset,
      .pause = pause_node,
      .resume = succeed,
      .desync = succeed,
      .resync = succeed,
      .lock = lock,
      .unlock = unlock,
      .is_locked = is_locked,
      .provider_name = "recorder",
      .provider_version = "1",
      .provider_vendor = "TidesDB tests",
      .free = free_provider,
  };
  *wsrep = PROVIDER;
  return 0;
}
