// The fields that commands know. One that is not known is refused: a client that misspells an option, or uses one of a
// newer server, must hear of it instead of getting an answer that ignores it. As MongoDB does for its strict commands.
#ifndef SHARDLET_NET_KNOWN_FIELDS_H
#define SHARDLET_NET_KNOWN_FIELDS_H

#include "common/net/command.h"

struct known_fields;

// What the command with this name takes; NULL: any field (administrative and internal commands).
const struct known_fields *known_fields_of(const char *command);

// Checks the body and, where the command has statements (updates, deletes), each of them. 40415 names the field. What a
// router or another member sends with a version was checked where it came in and is not checked again.
bool known_fields_check(const struct known_fields *k, const struct request *r, struct error *err);

#endif
