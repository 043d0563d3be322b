// What the router itself asks of a command's body.
#include "mongos/body.h"

#include "common/bson/doc.h"
#include "common/query/match.h"

bool body_document(const struct request *r, const char *field, bson_t *out, struct error *err) {
  bson_iter_t it;
  if (!doc_get(r->body, field, &it) || BSON_ITER_HOLDS_NULL(&it)) {
    bson_init(out);
    return true;
  }
  if (!BSON_ITER_HOLDS_DOCUMENT(&it)) {
    return error_set(err, ERR_TypeMismatch, "BSON field '%s.%s' is the wrong type, expected type 'object'", r->name,
                     field);
  }
  iter_doc(out, &it);
  return true;
}

bool body_filter_check(const struct request *r, const bson_t *filter, struct error *err) {
  bson_t let;
  struct match_options options = {.let = doc_doc(r->body, "let", &let) ? &let : NULL};
  return match_parse(r->op->arena, filter, &options, err) != NULL;
}
