// The config server as others see it.
#include "configsvr/config_server.h"

#include "common/bson/doc.h"

const char *config_connection_string(struct arena *a, const struct config_server *cs) {
  const bson_t *config = repl_config(cs->node.repl);
  bson_iter_t it, member;
  if (!config || !bson_iter_init_find(&it, config, "members") || !bson_iter_recurse(&it, &member)) return NULL;
  const char *text = arena_printf(a, "%s/", repl_set_name(cs->node.repl)), *comma = "";
  while (bson_iter_next(&member)) {
    bson_t m;
    iter_doc(&m, &member);
    text = arena_printf(a, "%s%s%s", text, comma, doc_str(&m, "host", ""));
    comma = ",";
  }
  return text;
}
