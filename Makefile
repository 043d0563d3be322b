# shardlet: build, run, test. `make help` lists the targets.
#
#   make               build/mongos, build/configsvr, build/shardd
#   make BUILD=DIR     the same into another folder;  SAN=1: with ASan and UBSan;  CC=clang: with clang
#
# Layers, lowest first; each is a static library that may use those before it. Unit tests of a layer link it and those below.

BUILD ?= build
ifeq ($(origin CC),default)
CC := gcc
endif
LAYERS := common/base common/bson common/query proto common/net common/store common/repl common/sharding common/node
DAEMONS := mongos configsvr shardd
PACKAGES := libbson-1.0 libuv sqlite3 raft libpcre2-8 libcrypto zlib libzstd yaml-0.1

CFLAGS ?= -O2 -g
CFLAGS_ALL := -std=gnu17 -Wall -Wextra -Wshadow -Wconversion -Werror -Wno-unused-parameter -Wno-format-truncation -fno-omit-frame-pointer \
	-D_GNU_SOURCE -I. $(shell pkg-config --cflags $(PACKAGES) | sed 's/-I/-isystem /g') $(CFLAGS)
LDLIBS_ALL := $(shell pkg-config --libs $(PACKAGES)) -lsnappy -lgmp -lm -lpthread
ifeq ($(SAN),1)
CFLAGS_ALL += -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif

# Sources of a layer: its folder, and folders below it.
sources = $(sort $(shell find $(1) -name '*.c' 2>/dev/null))
objects = $(patsubst %.c,$(BUILD)/obj/%.o,$(call sources,$(1)))
library = $(BUILD)/lib/$(subst /,-,$(1)).a
LIBRARIES := $(foreach l,$(LAYERS),$(call library,$(l)))
# Static libraries in link order: highest layer first.
reverse = $(if $(1),$(call reverse,$(wordlist 2,$(words $(1)),$(1))) $(firstword $(1)))
LINK := $(call reverse,$(LIBRARIES))

.PHONY: all
all: $(foreach d,$(DAEMONS),$(BUILD)/$(d))

$(BUILD)/obj/%.o: %.c
	@mkdir -p $(@D)
	@echo "  CC  $<"
	@$(CC) $(CFLAGS_ALL) -MMD -MP -c $< -o $@

define layer_rule
$(call library,$(1)): $(call objects,$(1))
	@mkdir -p $$(@D)
	@rm -f $$@
	@ar rcsD $$@ $$^
endef
$(foreach l,$(LAYERS),$(eval $(call layer_rule,$(l))))

define daemon_rule
$(BUILD)/$(1): $(call objects,$(1)) $(LINK)
	@mkdir -p $$(@D)
	@echo "  LD  $$@"
	@$(CC) $(LDFLAGS) -o $$@ $(call objects,$(1)) $(LINK) $(LDLIBS_ALL)
endef
$(foreach d,$(DAEMONS),$(eval $(call daemon_rule,$(d))))

# --- unit tests: tests/unit/<layer>/test_*.c, for example tests/unit/common/bson/test_key.c ---
UNIT_SOURCES := $(sort $(shell find tests/unit -name 'test_*.c' 2>/dev/null))
UNIT_TESTS := $(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(UNIT_SOURCES))
# The libraries a unit test links: its layer and those below, or all with its daemon's objects but main.
upto = $(if $(filter $(1),$(firstword $(2))),$(firstword $(2)),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,$(words $(2)),$(2))))
unit_layer = $(patsubst tests/unit/%/,%,$(dir $(1)))
unit_link = $(if $(filter $(call unit_layer,$(1)),$(LAYERS)),$(foreach l,$(call reverse,$(call upto,$(call unit_layer,$(1)),$(LAYERS))),$(call library,$(l))),$(filter-out %/main.o,$(call objects,$(call unit_layer,$(1)))) $(LINK))

define unit_rule
$(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(1)): $(BUILD)/obj/$(1:.c=.o) $(call unit_link,$(1))
	@mkdir -p $$(@D)
	@echo "  LD  $$@"
	@$(CC) $(LDFLAGS) -o $$@ $$^ $(LDLIBS_ALL) -lcmocka
endef
$(foreach t,$(UNIT_SOURCES),$(eval $(call unit_rule,$(t))))

.PHONY: unit
unit: $(UNIT_TESTS)
	@set -e; for t in $(UNIT_TESTS); do echo "== $$t"; $$t; done

# make unit-common/bson: one layer's tests.
define unit_layer_rule
.PHONY: unit-$(1)
unit-$(1): $(filter $(BUILD)/unit/$(1)/%,$(UNIT_TESTS))
	@set -e; for t in $$^; do echo "== $$$$t"; $$$$t; done
endef
$(foreach l,$(LAYERS) $(DAEMONS),$(eval $(call unit_layer_rule,$(l))))

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
