// config.settings: what may stand there, and what it says to the balancer. Pure.
#ifndef SHARDLET_CONFIGSVR_SETTINGS_H
#define SHARDLET_CONFIGSVR_SETTINGS_H

#include "common/base/arena.h"
#include "common/base/error.h"

enum { DEFAULT_CHUNK_MB = 128, MAX_CHUNK_MB = 1024 };

struct balancer_settings {
  bool enabled; // mode full and not stopped
  bool has_window;
  int start_minute, stop_minute; // of the day, inclusive at both ends; start > stop wraps midnight
  bool attempt_jumbo;            // attemptToBalanceJumboChunks
  bool wait_for_delete;
  bool secondary_throttle;
  bool auto_merge; // automerge
  int64_t chunk_bytes;
};

// The validator of the collection: DocumentValidationFailure (121) naming the field.
bool settings_validate(const bson_t *doc, struct error *err);
// From the documents of config.settings; what is absent has its default. err BadValue: a value that nobody should have
// got past the validator; then the balancer does not balance.
bool settings_read(const bson_t *const *docs, size_t n, struct balancer_settings *out, struct error *err);
// Whether balancing is allowed at this minute of the day (local time).
bool settings_in_window(const struct balancer_settings *s, int minute);

#endif
