// The envelope of a command. Internal to common/net.
#ifndef SHARDLET_NET_REQUEST_H
#define SHARDLET_NET_REQUEST_H

#include "common/net/command.h"

// Fills the fields that come from the message; op, daemon, conn and command are the caller's. db: NULL = from the
// message. What could be read is in *r also when it fails.
bool request_parse(struct request *r, const struct message *m, const char *db, struct error *err);

// Stable API: whether the command may be used with the apiVersion and apiStrict that the request carries.
bool request_check_api(const struct request *r, struct error *err);

// Concerns (request_concern.c). What a readConcern says goes into the request.
// What the command cannot be run with: a read concern other than local for a write, a txnNumber for what is not
// retryable.
bool request_check_concerns(const struct request *r, struct error *err);
bool request_take_read_concern(struct request *r, const bson_t *concern, struct error *err);

#endif
