// $unwind: a document for each element of an array.
#include <string.h>

#include "common/bson/path.h"
#include "common/query/pipeline/pipeline_internal.h"

struct unwind {
  const char *path, *index_path; // index_path NULL: not wanted
  bool preserve;                 // a document without elements is given once
  // The document being unwound.
  struct arena *held;
  const bson_t *doc;
  bson_value_t array;
  bson_iter_t at;
  int64_t index;
};

static void free_held(void *arg) {
  struct unwind *u = arg;
  arena_free(u->held);
}

static bool take_path(struct stage_parser *p, struct unwind *u, const bson_value_t *v) {
  if (!value_is_string(v)) {
    return error_set(p->err, 28808, "expected a string as the path for $unwind stage, got %s", value_text(p->arena, v));
  }
  const char *path = v->value.v_utf8.str;
  if (path[0] != '$') {
    return error_set(p->err, 28818, "path option to $unwind stage should be prefixed with a '$': %s", path);
  }
  if (path[1] == '$' || !path[1] || path[1] == '.' || path[strlen(path) - 1] == '.' || strstr(path, "..")) {
    return error_set(p->err, 28818, "path option to $unwind stage is not a valid field path: %s", path);
  }
  u->path = path + 1;
  return true;
}

static bool take_option(struct stage_parser *p, struct unwind *u, const char *key, const bson_value_t *v) {
  if (strcmp(key, "path") == 0) return take_path(p, u, v);
  if (strcmp(key, "preserveNullAndEmptyArrays") == 0) {
    if (v->value_type != BSON_TYPE_BOOL) {
      return error_set(p->err, 28809,
                       "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got %s",
                       value_text(p->arena, v));
    }
    u->preserve = v->value.v_bool;
    return true;
  }
  if (strcmp(key, "includeArrayIndex") == 0) {
    if (!value_is_string(v) || v->value.v_utf8.len == 0) {
      return error_set(p->err, 28810,
                       "expected a non-empty string for the includeArrayIndex  option to $unwind stage, got %s",
                       value_text(p->arena, v));
    }
    u->index_path = v->value.v_utf8.str;
    return u->index_path[0] != '$' ||
           error_set(p->err, 28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$': %s",
                     u->index_path);
  }
  return error_set(p->err, 28811, "unrecognized option to $unwind stage: %s", key);
}

static bool parse_unwind(struct stage_parser *p, struct stage *s, bool *added) {
  struct unwind *u = arena_zalloc(p->arena, sizeof *u);
  s->state = u;
  u->held = arena_new();
  arena_on_free(p->arena, free_held, u);
  if (value_is_string(&s->spec)) return take_path(p, u, &s->spec);
  if (!value_is_doc(&s->spec)) {
    return error_set(p->err, 15981, "expected either a string or an object as specification for $unwind stage, got %s",
                     value_text(p->arena, &s->spec));
  }
  bson_iter_t it;
  for (value_iter(&s->spec, &it); bson_iter_next(&it);) {
    if (!take_option(p, u, bson_iter_key(&it), bson_iter_value(&it))) return false;
  }
  return u->path || error_set(p->err, 28812, "no path specified to $unwind stage");
}

// A copy of `doc` with the value at a dotted path replaced (missing: removed); created where it is not there.
static void append_with(bson_t *out, const uint8_t *data, size_t len, const char *path, const bson_value_t *v) {
  size_t part = strcspn(path, ".");
  bool last = !path[part], found = false;
  bson_iter_t it;
  bson_t inside;
  static const uint8_t empty[] = {5, 0, 0, 0, 0};
  for (bson_iter_init_from_data(&it, data, len); bson_iter_next(&it);) {
    const char *key = bson_iter_key(&it);
    const bson_value_t *field = bson_iter_value(&it);
    if (found || strncmp(key, path, part) != 0 || key[part]) {
      doc_append_value(out, key, field);
      continue;
    }
    found = true;
    if (last) {
      if (!value_is_missing(v)) doc_append_value(out, key, v);
      continue;
    }
    bool document = value_is_doc(field);
    bson_append_document_begin(out, key, -1, &inside);
    append_with(&inside, document ? field->value.v_doc.data : empty,
                document ? field->value.v_doc.data_len : sizeof empty, path + part + 1, v);
    bson_append_document_end(out, &inside);
  }
  if (found || value_is_missing(v)) return;
  if (last) {
    doc_append_value(out, path, v);
    return;
  }
  bson_append_document_begin(out, path, (int)part, &inside);
  append_with(&inside, empty, sizeof empty, path + part + 1, v);
  bson_append_document_end(out, &inside);
}

static const bson_t *unwound(struct stage *s, const struct unwind *u, const bson_t *doc, const bson_value_t *v,
                             const bson_value_t *index) {
  if (v) {
    bson_t *out = arena_bson(s->scratch);
    append_with(out, bson_get_data(doc), doc->len, u->path, v);
    doc = out;
  }
  if (!u->index_path) return doc;
  bson_t *numbered = arena_bson(s->scratch);
  append_with(numbered, bson_get_data(doc), doc->len, u->index_path, index);
  return numbered;
}

// The value at the path, which leads through documents only.
static bson_value_t value_at(const bson_t *doc, const char *path) {
  bson_value_t v = value_doc(doc);
  for (const char *at = path; at; at = at[strcspn(at, ".")] ? at + strcspn(at, ".") + 1 : NULL) {
    bson_iter_t it;
    if (!value_is_doc(&v) || !value_iter(&v, &it) || !bson_iter_find_w_len(&it, at, (int)strcspn(at, "."))) {
      return value_missing();
    }
    v = *bson_iter_value(&it);
  }
  return v;
}

static bool next_unwind(struct stage *s, const bson_t **doc, struct error *err) {
  struct unwind *u = s->state;
  bson_value_t null = value_null(), missing = value_missing();
  for (;;) {
    if (u->doc && bson_iter_next(&u->at)) {
      bson_value_t index = value_int64(u->index++);
      arena_reset(s->scratch);
      *doc = unwound(s, u, u->doc, bson_iter_value(&u->at), &index);
      return true;
    }
    u->doc = NULL;
    if (!stage_pull(s, doc, err)) return false;
    if (!*doc) return true;
    bson_value_t v = value_at(*doc, u->path);
    bool none = value_is_nullish(&v);
    if (value_is_array(&v)) {
      // The document is kept for as long as its elements are given out; the source's copy is not.
      arena_reset(u->held);
      u->doc = arena_bson_copy(u->held, bson_get_data(*doc), (*doc)->len);
      u->array = value_at(u->doc, u->path);
      u->index = 0;
      value_iter(&u->array, &u->at);
      none = u->array.value.v_doc.data_len <= 5;
      if (!none) continue;
      u->doc = NULL;
    }
    if (none && !u->preserve) continue;
    // An empty array's field goes; null and missing stay as they are; what is no array is its own only element.
    *doc = unwound(s, u, *doc, value_is_array(&v) ? &missing : NULL, &null);
    return true;
  }
}

const struct stage_type STAGES_UNWIND[] = {
    {"$unwind", parse_unwind, next_unwind, .on_router = true},
    {NULL},
};
