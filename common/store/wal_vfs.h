// A SQLite VFS that writes a frame of a write-ahead log with one system call.
//
// SQLite writes each frame as a header of 24 bytes and a page, two pwrite() that follow each other; with a random index
// a document is a page or more, so that these calls were 18 % of a shard's time in an insertMany. Here the header waits
// for its page. Nothing can see the difference: both calls are made by the same function of SQLite, before the frame is
// published in the wal-index, and whatever else is done with the file writes a waiting header first.
#ifndef SHARDLET_STORE_WAL_VFS_H
#define SHARDLET_STORE_WAL_VFS_H

// Its name for sqlite3_open_v2(); registered at the first call, over the VFS that is the default then. NULL (SQLite's
// default) when there is no memory for it.
const char *wal_vfs(void);

#endif
