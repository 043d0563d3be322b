// Helpers for handlers: required fields, namespaces, lists of documents in both of their forms.
#include <string.h>

#include "common/bson/doc.h"
#include "common/net/command.h"

enum { DB_NAME_MAX = 63, NAMESPACE_MAX = 255, MISSING_FIELD = 40414 };

static bool invalid_namespace(const char *ns, struct error *err) {
  return error_set(err, ERR_InvalidNamespace, "Invalid namespace specified '%s'", ns);
}

static bool database_name_valid(const char *db, size_t len) {
  return len > 0 && len <= DB_NAME_MAX && strcspn(db, "/\\. \"$") >= len;
}

bool namespace_valid(const char *ns, struct error *err) {
  const char *dot = strchr(ns, '.');
  if (!dot || !database_name_valid(ns, (size_t)(dot - ns))) return invalid_namespace(ns, err);
  const char *coll = dot + 1;
  if (!*coll || *coll == '.') return invalid_namespace(ns, err);
  if (strchr(coll, '$') && strncmp(coll, "$cmd", 4) != 0) return invalid_namespace(ns, err);
  if (strlen(ns) > NAMESPACE_MAX) {
    return error_set(err, ERR_InvalidNamespace, "Fully qualified namespace is too long. Namespace: %s Max: %d", ns,
                     NAMESPACE_MAX);
  }
  return true;
}

const char *namespace_database(struct arena *a, const char *ns) {
  return arena_strndup(a, ns, strcspn(ns, "."));
}

bool request_needs_collection(const struct request *r, struct error *err) {
  if (!r->coll) {
    return error_set(err, ERR_InvalidNamespace, "collection name has invalid type: the field '%s' must be a string",
                     r->name);
  }
  return namespace_valid(r->ns, err);
}

static bool wrong_type(const struct request *r, const char *field, const char *expected, struct error *err) {
  return error_set(err, ERR_TypeMismatch, "BSON field '%s.%s' is the wrong type, expected type '%s'", r->name, field,
                   expected);
}

static bool missing(const struct request *r, const char *field, struct error *err) {
  return error_set(err, MISSING_FIELD, "BSON field '%s.%s' is missing but a required field", r->name, field);
}

bool request_required_doc(const struct request *r, const char *field, bson_t *out, struct error *err) {
  bson_iter_t it;
  if (!doc_get(r->body, field, &it)) return missing(r, field, err);
  if (!BSON_ITER_HOLDS_DOCUMENT(&it) && !BSON_ITER_HOLDS_ARRAY(&it)) return wrong_type(r, field, "object", err);
  iter_doc(out, &it);
  return true;
}

bool request_required_str(const struct request *r, const char *field, const char **out, struct error *err) {
  bson_iter_t it;
  if (!doc_get(r->body, field, &it)) return missing(r, field, err);
  if (!BSON_ITER_HOLDS_UTF8(&it)) return wrong_type(r, field, "string", err);
  uint32_t len;
  *out = bson_iter_utf8(&it, &len);
  if (strlen(*out) == len) return true;
  return error_set(err, ERR_BadValue, "BSON field '%s.%s' must not contain a null character", r->name, field);
}

static const struct sequence *find_sequence(const struct request *r, const char *field) {
  for (size_t i = 0; i < r->message->n_sequences; i++) {
    if (!strcmp(r->message->sequences[i].name, field)) return &r->message->sequences[i];
  }
  return NULL;
}

// The documents of an array field: counts them and checks that they are some.
static bool array_documents(const struct request *r, const char *field, bson_iter_t *at, struct documents *out,
                            struct error *err) {
  if (!BSON_ITER_HOLDS_ARRAY(at)) return wrong_type(r, field, "array", err);
  iter_doc(&out->array, at);
  (void)bson_iter_init(&out->it, &out->array);
  while (bson_iter_next(&out->it)) {
    if (!BSON_ITER_HOLDS_DOCUMENT(&out->it)) {
      return error_set(err, ERR_TypeMismatch, "BSON field '%s.%s.%zu' is the wrong type, expected type 'object'",
                       r->name, field, out->count);
    }
    out->count++;
  }
  (void)bson_iter_init(&out->it, &out->array);
  return true;
}

bool request_documents(const struct request *r, const char *field, struct documents *out, struct error *err) {
  out->sequence = find_sequence(r, field);
  out->at = out->count = 0;
  bson_iter_t it;
  bool in_body = doc_get(r->body, field, &it);
  if (out->sequence && in_body) {
    return error_set(err, 40433, "Duplicate field between body and document sequence %s", field);
  }
  if (!out->sequence && !in_body) return missing(r, field, err);
  if (out->sequence)
    out->count = out->sequence->count;
  else if (!array_documents(r, field, &it, out, err))
    return false;
  if (out->count <= MESSAGE_MAX_STATEMENTS) return true;
  return error_set(err, ERR_InvalidLength, "Write batch sizes must be between 1 and %d. Got %zu operations.",
                   MESSAGE_MAX_STATEMENTS, out->count);
}

bool documents_next(struct documents *d, bson_t *doc) {
  if (d->sequence) return sequence_next(d->sequence, &d->at, doc);
  if (!bson_iter_next(&d->it)) return false;
  iter_doc(doc, &d->it);
  return true;
}
