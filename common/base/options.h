// Command line and configuration file of a daemon, from one declarative table.
//
// Flags are MongoDB's: `--name value` or `--name=value`. `--config FILE` reads a YAML file whose dotted keys name the
// same options (net.port, storage.dbPath ...); what the command line says wins.
#ifndef SHARDLET_BASE_OPTIONS_H
#define SHARDLET_BASE_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/arena.h"
#include "common/base/error.h"

enum option_type { OPTION_FLAG, OPTION_STRING, OPTION_INT, OPTION_LIST }; // a list collects every occurrence

struct option {
  const char *name; // without dashes: "bind_ip"
  char letter;      // short form ('f' for config), 0 = none
  enum option_type type;
  const char *yaml;     // "net.bindIp", NULL = command line only
  const char *argument; // "HOST", for --help; NULL for flags
  const char *help;
  long min, max; // for OPTION_INT
};

struct options; // the parsed values

// Never prints. On a bad word fails with BadValue and a message that says what to do. `table` ends with name == NULL.
struct options *options_parse(struct arena *a, const struct option *table, int argc, char **argv, struct error *err);

bool options_has(const struct options *o, const char *name);
const char *options_string(const struct options *o, const char *name, const char *otherwise);
long options_int(const struct options *o, const char *name, long otherwise);
const char *const *options_list(const struct options *o, const char *name, size_t *n);

// The text of --help: a usage line, then a line an option; fits a screen of 80 x 50.
const char *options_help(struct arena *a, const char *program, const char *summary, const struct option *table);

#endif
