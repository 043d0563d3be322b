// Stages that let documents through, drop or multiply them: $limit, $skip, $unwind, $sample, and $sort, which orders
// them.
#include <math.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/bson/path.h"
#include "common/query/pipeline/stage.h"
#include "common/query/type_names.h"

struct counted {
  int64_t n, passed;
};

static bool parse_count(struct stage_parser *p, struct stage *s, const bson_value_t *argument, bool zero, int code) {
  int64_t n;
  struct counted *c = arena_zalloc(p->arena, sizeof *c);
  s->state = c;
  if (!value_is_number(argument) || !value_is_integral(argument, &n)) {
    return error_set(p->err, code, "invalid argument to %s stage: Expected a number in: %s: %s", s->type->name,
                     s->type->name, value_text(p->arena, argument));
  }
  if (n < 0 || (n == 0 && !zero)) {
    return error_set(p->err, zero ? code : 15958,
                     zero ? "invalid argument to %s stage: Expected a non-negative number"
                          : "the limit must be positive (%s)",
                     s->type->name);
  }
  c->n = n;
  return true;
}

int64_t limit_of(const struct stage *s) {
  return ((const struct counted *)s->state)->n;
}

bool limit_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  return parse_count(p, s, argument, false, 2107201);
}

bool limit_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct counted *c = s->state;
  *doc = NULL;
  if (c->passed >= c->n) return true;
  c->passed++;
  return stage_input(s, doc, err);
}

bool skip_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  return parse_count(p, s, argument, true, 5107200);
}

bool skip_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct counted *c = s->state;
  for (; c->passed < c->n; c->passed++) {
    if (!stage_input(s, doc, err)) return false;
    if (!*doc) return true;
  }
  return stage_input(s, doc, err);
}

// --- $unwind ---

struct unwinding {
  const char *path, *index_path; // index_path: includeArrayIndex, NULL = not wanted
  bool preserve;
  const bson_t *doc; // whose array is being unwound; NULL = the next one is needed
  bson_value_t array;
  bson_iter_t at;
  int64_t index;
  struct arena *kept; // of doc: the source's document goes away with its next one
};

static void free_kept(void *arg) {
  arena_free(arg);
}

static bool unwind_path(struct stage_parser *p, struct unwinding *u, const bson_value_t *path) {
  if (!value_is_string(path))
    return error_set(p->err, 28808, "expected a string as the path for $unwind stage, got %s",
                     type_name(path->value_type));
  const char *text = path->value.v_utf8.str;
  if (text[0] != '$')
    return error_set(p->err, 28818, "path option to $unwind stage should be prefixed with a '$': %s", text);
  if (!text[1]) return error_set(p->err, 28812, "no path specified to $unwind stage");
  u->path = arena_strdup(p->arena, text + 1);
  return true;
}

static bool unwind_option(struct stage_parser *p, struct unwinding *u, const char *name, const bson_value_t *v) {
  if (strcmp(name, "path") == 0) return unwind_path(p, u, v);
  if (strcmp(name, "preserveNullAndEmptyArrays") == 0) {
    if (v->value_type != BSON_TYPE_BOOL)
      return error_set(p->err, 28809,
                       "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got %s",
                       type_name(v->value_type));
    u->preserve = v->value.v_bool;
    return true;
  }
  if (strcmp(name, "includeArrayIndex") == 0) {
    if (!value_is_string(v) || !v->value.v_utf8.len)
      return error_set(p->err, 28810,
                       "expected a non-empty string for the includeArrayIndex option to $unwind stage, got %s",
                       type_name(v->value_type));
    if (v->value.v_utf8.str[0] == '$')
      return error_set(p->err, 28822, "includeArrayIndex option to $unwind stage should not be prefixed with a '$': %s",
                       v->value.v_utf8.str);
    u->index_path = arena_strdup(p->arena, v->value.v_utf8.str);
    return true;
  }
  return error_set(p->err, 28811, "unrecognized option to $unwind stage: %s", name);
}

bool unwind_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  struct unwinding *u = arena_zalloc(p->arena, sizeof *u);
  s->state = u;
  u->kept = arena_new();
  arena_on_free(p->arena, free_kept, u->kept);
  if (value_is_string(argument)) return unwind_path(p, u, argument);
  if (!value_is_doc(argument))
    return error_set(p->err, 15981, "expected either a string or an object as specification for $unwind stage, got %s",
                     type_name(argument->value_type));
  bson_iter_t it;
  for (value_iter(argument, &it); bson_iter_next(&it);) {
    if (!unwind_option(p, u, bson_iter_key(&it), bson_iter_value(&it))) return false;
  }
  return u->path || error_set(p->err, 28812, "no path specified to $unwind stage");
}

// The document with `v` in the array's place (missing: without it), and the index (negative: null).
static const bson_t *unwound(struct stage *s, const struct unwinding *u, const bson_value_t *v, int64_t index) {
  arena_reset(s->scratch);
  bson_t *one = arena_bson(s->scratch);
  document_set(one, u->doc, u->path, v);
  if (!u->index_path) return one;
  bson_t *with_index = arena_bson(s->scratch);
  bson_value_t i = index < 0 ? value_null() : value_int64(index);
  document_set(with_index, one, u->index_path, &i);
  return with_index;
}

// Takes the next document. *doc is set when it gives exactly one document (or the input ended).
static bool unwind_begin(struct stage *s, struct unwinding *u, const bson_t **doc, struct error *err) {
  const bson_t *input;
  if (!stage_input(s, &input, err)) return false;
  *doc = NULL;
  if (!input) {
    u->doc = NULL;
    return true;
  }
  arena_reset(u->kept);
  u->doc = arena_bson_copy(u->kept, bson_get_data(input), input->len);
  bson_value_t v;
  if (!path_get(u->doc, u->path, &v)) v = value_missing();
  if (value_is_array(&v)) {
    u->array = v;
    u->index = 0;
    bson_t array;
    doc_view(&array, v.value.v_doc.data, v.value.v_doc.data_len);
    if (!bson_empty(&array)) return value_iter(&v, &u->at);
    v = value_missing();
    if (u->preserve) *doc = unwound(s, u, &v, -1);
  } else if (!value_is_nullish(&v) || u->preserve) {
    *doc = u->index_path ? unwound(s, u, &v, -1) : u->doc;
  }
  u->array.value_type = BSON_TYPE_EOD;
  return true;
}

bool unwind_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct unwinding *u = s->state;
  for (;;) {
    if (u->doc && value_is_array(&u->array) && bson_iter_next(&u->at)) {
      *doc = unwound(s, u, bson_iter_value(&u->at), u->index++);
      return true;
    }
    if (!unwind_begin(s, u, doc, err)) return false;
    if (*doc || !u->doc) return true;
  }
}

// --- $sort ---

struct sorting {
  struct sort *sort;
  size_t limit;
  struct sorter *sorter; // NULL until the input was read
};

bool sort_parse_stage(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  if (!value_is_doc(argument)) return error_set(p->err, 15973, "the $sort key specification must be an object");
  struct sorting *x = arena_zalloc(p->arena, sizeof *x);
  s->state = x;
  bson_t pattern;
  doc_view(&pattern, argument->value.v_doc.data, argument->value.v_doc.data_len);
  if (bson_empty(&pattern)) return error_set(p->err, 15976, "$sort stage must have at least one sort key");
  x->sort = sort_parse(p->arena, &pattern, p->err);
  return x->sort != NULL;
}

void sort_set_limit(struct stage *s, int64_t limit) {
  ((struct sorting *)s->state)->limit = (size_t)limit;
}

bool sort_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct sorting *x = s->state;
  if (!x->sorter) {
    x->sorter = sorter_new(s->pipeline->arena, x->sort, x->limit);
    for (;;) {
      const bson_t *input;
      if (!stage_input(s, &input, err)) return false;
      if (!input) break;
      if (!sorter_add(x->sorter, input, err)) return false;
    }
    sorter_finish(x->sorter);
  }
  *doc = sorter_next(x->sorter);
  return true;
}

// --- $sample: a reservoir ---

struct sampling {
  size_t size, n, given;
  const bson_t **docs;
  bool read;
};

enum { MAX_SAMPLE = 1000000 };

bool sample_parse(struct stage_parser *p, struct stage *s, const bson_value_t *argument) {
  bson_value_t size;
  bson_t spec;
  int64_t n;
  if (!value_is_doc(argument)) return error_set(p->err, 28745, "the $sample stage specification must be an object");
  doc_view(&spec, argument->value.v_doc.data, argument->value.v_doc.data_len);
  if (!doc_value(&spec, "size", &size)) return error_set(p->err, 28749, "$sample stage must specify a size");
  if (!value_is_number(&size)) return error_set(p->err, 28746, "size argument to $sample must be a number");
  if (!value_is_integral(&size, &n) || n <= 0)
    return error_set(p->err, 28747, "size argument to $sample must be a positive integer");
  if (n > MAX_SAMPLE)
    return error_set(p->err, ERR_BadValue, "size argument to $sample must not be more than %d", MAX_SAMPLE);
  struct sampling *x = arena_zalloc(p->arena, sizeof *x);
  x->size = (size_t)n;
  s->state = x;
  return true;
}

static bool read_sample(struct stage *s, struct sampling *x, struct error *err) {
  size_t seen = 0, bytes = 0;
  x->docs = arena_zalloc(s->pipeline->arena, x->size * sizeof(bson_t *));
  for (;; seen++) {
    const bson_t *input;
    if (!stage_input(s, &input, err)) return false;
    if (!input) return true;
    size_t place = seen < x->size ? seen : (size_t)(random_u64() % (seen + 1));
    if (place >= x->size) continue;
    bytes += input->len;
    if (bytes > STAGE_MEMORY_LIMIT) {
      return error_set(err, ERR_QueryExceededMemoryLimitNoDiskUseAllowed, "$sample keeps more than %d bytes",
                       STAGE_MEMORY_LIMIT);
    }
    x->docs[place] = arena_bson_copy(s->pipeline->arena, bson_get_data(input), input->len);
    if (x->n <= place) x->n = place + 1;
  }
}

bool sample_next(struct stage *s, const bson_t **doc, struct error *err) {
  struct sampling *x = s->state;
  if (!x->read && !read_sample(s, x, err)) return false;
  x->read = true;
  *doc = x->given < x->n ? x->docs[x->given++] : NULL;
  return true;
}
