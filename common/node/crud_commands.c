// The table of the CRUD commands.
#include "common/node/crud.h"
#include "common/node/cursors.h"
#include "common/node/node.h"

const struct command node_crud_commands[] = {
    {"insert", NULL, CMD_WRITE | CMD_VERSIONED, insert_run, "adds documents"},
    {"find", NULL, CMD_READ | CMD_VERSIONED, find_run, "reads documents"},
    {"getMore", NULL, 0, cursor_get_more, "the next batch of a cursor"},
    {"killCursors", NULL, 0, cursor_kill_command, "ends cursors"},
    {"update", NULL, CMD_WRITE | CMD_VERSIONED, update_run, "changes documents"},
    {"delete", NULL, CMD_WRITE | CMD_VERSIONED, delete_run, "removes documents"},
    {"findAndModify", "findandmodify", CMD_WRITE | CMD_VERSIONED, find_and_modify_run,
     "changes one document and returns it"},
    {"count", NULL, CMD_READ | CMD_VERSIONED, count_run, "counts documents"},
    {"distinct", NULL, CMD_READ | CMD_VERSIONED, distinct_run, "the different values of a field"},
    {"aggregate", NULL, CMD_READ | CMD_VERSIONED, aggregate_run, "runs a pipeline"},
    {"explain", NULL, CMD_READ | CMD_VERSIONED, explain_run, "how a command is answered"},
    {0},
};
