// Options of a daemon: the command line, then a YAML file for what it did not say.
#include "common/base/options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "common/base/buf.h"

struct value {
  const char *name;
  const char *text; // "true" for a flag
  struct value *next;
};

struct options {
  struct arena *arena;
  const struct option *table;
  struct value *first, **last; // in the order given
};

static void add_value(struct options *o, const char *name, const char *text) {
  struct value *v = arena_zalloc(o->arena, sizeof *v);
  v->name = name;
  v->text = text;
  *o->last = v;
  o->last = &v->next;
}

bool options_has(const struct options *o, const char *name) {
  for (const struct value *v = o->first; v; v = v->next) {
    if (!strcmp(v->name, name)) return true;
  }
  return false;
}

const char *options_string(const struct options *o, const char *name, const char *otherwise) {
  const char *found = otherwise;
  for (const struct value *v = o->first; v; v = v->next) {
    if (!strcmp(v->name, name)) found = v->text;
  }
  return found;
}

long options_int(const struct options *o, const char *name, long otherwise) {
  const char *text = options_string(o, name, NULL);
  return text ? strtol(text, NULL, 10) : otherwise;
}

const char *const *options_list(const struct options *o, const char *name, size_t *n) {
  *n = 0;
  for (const struct value *v = o->first; v; v = v->next) *n += !strcmp(v->name, name);
  const char **list = arena_alloc(o->arena, (*n + 1) * sizeof *list);
  size_t i = 0;
  for (const struct value *v = o->first; v; v = v->next) {
    if (!strcmp(v->name, name)) list[i++] = v->text;
  }
  list[i] = NULL;
  return list;
}

static bool check_value(const struct option *opt, const char *text, const char *where, struct error *err) {
  if (opt->type != OPTION_INT) return true;
  char *end;
  errno = 0;
  long n = strtol(text, &end, 10);
  if (end == text || *end || errno) return error_set(err, ERR_BadValue, "%s: '%s' is not a number", where, text);
  if (n < opt->min || n > opt->max) {
    return error_set(err, ERR_BadValue, "%s: %ld is out of range, it must be from %ld to %ld", where, n, opt->min,
                     opt->max);
  }
  return true;
}

static bool set_value(struct options *o, const struct option *opt, const char *text, const char *where,
                      struct error *err) {
  if (!check_value(opt, text, where, err)) return false;
  add_value(o, opt->name, text);
  return true;
}

static const struct option *find_option(const struct option *table, const char *word, size_t n) {
  for (const struct option *opt = table; opt->name; opt++) {
    if (strlen(opt->name) == n && !memcmp(opt->name, word, n)) return opt;
    if (n == 1 && opt->letter == word[0]) return opt;
  }
  return NULL;
}

static bool parse_words(struct options *o, int argc, char **argv, struct error *err) {
  for (int i = 1; i < argc; i++) {
    const char *word = argv[i];
    size_t dashes = strspn(word, "-");
    const char *name = word + dashes;
    size_t n = strcspn(name, "=");
    const struct option *opt = dashes == 1 || dashes == 2 ? find_option(o->table, name, n) : NULL;
    if (!opt) {
      return dashes
                 ? error_set(err, ERR_BadValue, "unknown option '%s'; --help lists the options", word)
                 : error_set(err, ERR_BadValue, "unexpected word '%s'; options begin with --, --help lists them", word);
    }
    const char *given = name[n] == '=' ? name + n + 1 : NULL;
    if (opt->type == OPTION_FLAG) {
      if (given && strcmp(given, "true") != 0 && strcmp(given, "false") != 0) {
        return error_set(err, ERR_BadValue, "--%s takes no value", opt->name);
      }
      if (!given || !strcmp(given, "true")) add_value(o, opt->name, "true");
      continue;
    }
    if (!given) {
      if (i + 1 >= argc) return error_set(err, ERR_BadValue, "--%s needs a value (%s)", opt->name, opt->argument);
      given = argv[++i];
    }
    if (!set_value(o, opt, given, arena_printf(o->arena, "--%s", opt->name), err)) return false;
  }
  return true;
}

struct yaml_reader {
  struct options *o;
  yaml_document_t *doc;
  const char *file;
  size_t n_cli; // how many values the command line gave: those win
};

static bool given_on_command_line(const struct yaml_reader *y, const char *name) {
  size_t i = 0;
  for (const struct value *v = y->o->first; v && i < y->n_cli; v = v->next, i++) {
    if (!strcmp(v->name, name)) return true;
  }
  return false;
}

static bool read_scalar(struct yaml_reader *y, const char *path, const char *text, struct error *err) {
  struct arena *a = y->o->arena;
  const char *parameter = strncmp(path, "setParameter.", 13) == 0 ? path + 13 : NULL;
  const struct option *opt = y->o->table;
  while (opt->name && !(opt->yaml && !strcmp(opt->yaml, parameter ? "setParameter" : path))) opt++;
  if (!opt->name) return error_set(err, ERR_BadValue, "%s: unknown setting '%s'", y->file, path);
  if (given_on_command_line(y, opt->name) && opt->type != OPTION_LIST) return true;
  if (opt->type == OPTION_FLAG) {
    if (!strcmp(text, "true"))
      add_value(y->o, opt->name, "true");
    else if (strcmp(text, "false") != 0)
      return error_set(err, ERR_BadValue, "%s: %s must be true or false", y->file, path);
    return true;
  }
  const char *value = parameter ? arena_printf(a, "%s=%s", parameter, text) : arena_strdup(a, text);
  return set_value(y->o, opt, value, arena_printf(a, "%s: %s", y->file, path), err);
}

static bool read_node(struct yaml_reader *y, yaml_node_t *node, const char *path, int depth, struct error *err) {
  struct arena *a = y->o->arena;
  if (depth > 8) return error_set(err, ERR_BadValue, "%s: nested too deeply", y->file);
  switch (node->type) {
  case YAML_SCALAR_NODE: return read_scalar(y, path, (const char *)node->data.scalar.value, err);
  case YAML_SEQUENCE_NODE:
    for (yaml_node_item_t *i = node->data.sequence.items.start; i < node->data.sequence.items.top; i++) {
      if (!read_node(y, yaml_document_get_node(y->doc, *i), path, depth + 1, err)) return false;
    }
    return true;
  case YAML_MAPPING_NODE:
    for (yaml_node_pair_t *p = node->data.mapping.pairs.start; p < node->data.mapping.pairs.top; p++) {
      yaml_node_t *key = yaml_document_get_node(y->doc, p->key);
      if (key->type != YAML_SCALAR_NODE) return error_set(err, ERR_BadValue, "%s: a key that is not a name", y->file);
      const char *name = (const char *)key->data.scalar.value;
      const char *below = *path ? arena_printf(a, "%s.%s", path, name) : name;
      if (!read_node(y, yaml_document_get_node(y->doc, p->value), below, depth + 1, err)) return false;
    }
    return true;
  default: return true;
  }
}

static void close_file(FILE **f) {
  if (*f) (void)fclose(*f);
}

static bool parse_file(struct options *o, const char *file, struct error *err) {
  __attribute__((cleanup(close_file))) FILE *f = fopen(file, "r");
  if (!f) return error_set(err, ERR_BadValue, "cannot read the configuration file %s: %s", file, strerror(errno));
  yaml_parser_t parser;
  yaml_document_t doc;
  if (!yaml_parser_initialize(&parser)) return error_set(err, ERR_InternalError, "no memory for reading %s", file);
  yaml_parser_set_input_file(&parser, f);
  if (!yaml_parser_load(&parser, &doc)) {
    (void)error_set(err, ERR_FailedToParse, "%s, line %zu: %s", file, parser.problem_mark.line + 1,
                    parser.problem ? parser.problem : "not YAML");
    yaml_parser_delete(&parser);
    return false;
  }
  struct yaml_reader y = {.o = o, .doc = &doc, .file = file};
  for (const struct value *v = o->first; v; v = v->next) y.n_cli++;
  yaml_node_t *root = yaml_document_get_root_node(&doc);
  bool ok = !root || read_node(&y, root, "", 0, err);
  yaml_document_delete(&doc);
  yaml_parser_delete(&parser);
  return ok;
}

struct options *options_parse(struct arena *a, const struct option *table, int argc, char **argv, struct error *err) {
  struct options *o = arena_zalloc(a, sizeof *o);
  o->arena = a;
  o->table = table;
  o->last = &o->first;
  if (!parse_words(o, argc, argv, err)) return NULL;
  const char *file = options_string(o, "config", NULL);
  if (file && !parse_file(o, file, err)) return NULL;
  return o;
}

const char *options_help(struct arena *a, const char *program, const char *summary, const struct option *table) {
  __attribute__((cleanup(buf_cleanup))) struct buf text = {0};
  buf_printf(&text, "%s: %s\n\nUsage: %s [options]\n\n", program, summary, program);
  for (const struct option *opt = table; opt->name; opt++) {
    if (!opt->help) continue; // accepted for MongoDB's sake, without an effect to describe
    char left[64];
    (void)snprintf(left, sizeof left, "--%s%s%s", opt->name, opt->argument ? " " : "",
                   opt->argument ? opt->argument : "");
    buf_printf(&text, "  %-26s %s\n", left, opt->help);
  }
  return arena_strdup(a, buf_str(&text));
}
