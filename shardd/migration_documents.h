// The documents by which a migration survives its processes (reference/sharding.md 1.3), in MongoDB's field order.
#ifndef SHARDLET_SHARDD_MIGRATION_DOCUMENTS_H
#define SHARDLET_SHARDD_MIGRATION_DOCUMENTS_H

#include "common/bson/key.h"
#include "common/sharding/shard_key.h"
#include "common/sharding/version.h"

#define COORDINATORS_NS "config.migrationCoordinators"
#define RECIPIENTS_NS "config.migrationRecipients"
#define RANGE_DELETIONS_NS "config.rangeDeletions"

enum decision { DECISION_NONE, DECISION_COMMITTED, DECISION_ABORTED };

// On the donor: from before the clone until the recipient has been told the decision. Strings and documents are
// borrowed.
struct coordinator_doc {
  uint8_t id[16]; // the migration's
  const char *session_id, *ns;
  uint8_t lsid[16];
  int64_t txn_number;
  uint8_t collection[16];
  const char *donor, *recipient;
  const bson_t *min, *max;
  struct chunk_version before; // of the chunk that the migration starts from
  enum decision decision;
};
const bson_t *coordinator_doc_make(struct arena *a, const struct coordinator_doc *d);
bool coordinator_doc_parse(struct arena *a, const bson_t *doc, struct coordinator_doc *out, struct error *err);

// On the recipient: from the adoption of the range until the donor releases it.
struct recipient_doc {
  uint8_t id[16];
  const char *ns, *session_id;
  const bson_t *min, *max;
  const char *donor;
  uint8_t lsid[16];
  int64_t txn_number;
};
const bson_t *recipient_doc_make(struct arena *a, const struct recipient_doc *d);
bool recipient_doc_parse(struct arena *a, const bson_t *doc, struct recipient_doc *out, struct error *err);

// On both: a range whose documents this shard is to delete, once it is not pending any more.
struct range_deletion_doc {
  uint8_t id[16]; // the migration's
  const char *ns;
  uint8_t collection[16];
  const char *donor;
  const bson_t *min, *max;
  bool pending, processing;
  bool now; // whenToClean: without the delay
  uint64_t timestamp;
  int64_t orphans;
  const bson_t *key; // the shard key pattern, NULL = not known
};
const bson_t *range_deletion_doc_make(struct arena *a, const struct range_deletion_doc *d);
bool range_deletion_doc_parse(struct arena *a, const bson_t *doc, struct range_deletion_doc *out, struct error *err);

bson_value_t uuid_value(const uint8_t uuid[16]); // borrowed: a BinData of subtype 4

#endif
