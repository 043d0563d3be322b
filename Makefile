# shardlet: build, run, test.
#
#   make run           install what is needed, build, start a cluster on this machine (PORT=27017 DATA=data SHARDS=2)
#                      MEMBERS=3: replica sets of 3 members
#   make stop          end it;  make revive: start those of its daemons again that were killed
#   make test          install what is needed, build, run all tests
#   make chaos         SECONDS=60 SEED=1: clients check a cluster while it is killed, stopped and cut apart
#   make bench         measure speed and footprint against this machine's own limits
#   make               build/mongos, build/configsvr, build/shardd
#   make BUILD=DIR     the same into another folder;  SAN=1: with ASan and UBSan;  CC=clang: with clang
#   make lint          clang-format and clang-tidy;  make format: formats
#   make clean         removes build/
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
# Texts that are cut to fit are meant to be; clang has no such warning.
NO_WARNINGS := $(if $(findstring clang,$(CC)),,-Wno-format-truncation)
CFLAGS_ALL := -std=gnu17 -Wall -Wextra -Wshadow -Wconversion -Werror -Wno-unused-parameter -Wno-missing-field-initializers $(NO_WARNINGS) -fno-omit-frame-pointer \
	-D_GNU_SOURCE -I. $(shell pkg-config --cflags $(PACKAGES) 2>/dev/null | sed 's/-I/-isystem /g') $(CFLAGS)
LDLIBS_ALL := $(shell pkg-config --libs $(PACKAGES) 2>/dev/null) -lsnappy -lgmp -lm -lpthread
ifeq ($(SAN),1)
CFLAGS_ALL += -fsanitize=address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=address,undefined
endif
ifeq ($(FUZZ),1)
CFLAGS_ALL += -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
LDFLAGS += -fsanitize=fuzzer,address,undefined
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
# What a folder's unit tests share: its other files.
unit_support = $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out tests/unit/$(1)/test_%,$(wildcard tests/unit/$(1)/*.c)))
# The libraries a unit test links: its layer and those below, or all with its daemon's objects but main.
upto = $(if $(filter $(1),$(firstword $(2))),$(firstword $(2)),$(firstword $(2)) $(call upto,$(1),$(wordlist 2,$(words $(2)),$(2))))
unit_layer = $(patsubst tests/unit/%/,%,$(dir $(1)))
unit_link = $(if $(filter $(call unit_layer,$(1)),$(LAYERS)),$(foreach l,$(call reverse,$(call upto,$(call unit_layer,$(1)),$(LAYERS))),$(call library,$(l))),$(filter-out %/main.o,$(call objects,$(call unit_layer,$(1)))) $(LINK))

define unit_rule
$(patsubst tests/unit/%.c,$(BUILD)/unit/%,$(1)): $(BUILD)/obj/$(1:.c=.o) $(call unit_support,$(call unit_layer,$(1))) $(call unit_link,$(1))
	@mkdir -p $$(@D)
	@echo "  LD  $$@"
	@$(CC) $(LDFLAGS) -o $$@ $$^ $(LDLIBS_ALL) -lcmocka
endef
$(foreach t,$(UNIT_SOURCES),$(eval $(call unit_rule,$(t))))

# A test program's run, told with its seconds; `make -j2 -Otarget unit` runs two at once and prints each whole.
run_test = @echo "== $<"; begun=$$(date +%s); BIN=$(BUILD) $< && echo "== $< took $$(($$(date +%s) - begun)) s"
.PHONY: unit $(UNIT_TESTS:%=%.run)
$(UNIT_TESTS:%=%.run): %.run: %
	$(run_test)
# The long ones begin first, so that none of them is waited for alone.
UNIT_LONG := $(patsubst %,$(BUILD)/unit/common/%,repl/test_power_cut store/test_crash)
unit: $(addsuffix .run,$(UNIT_LONG) $(filter-out $(UNIT_LONG),$(UNIT_TESTS)))

# make unit-common/bson: one layer's tests.
define unit_layer_rule
.PHONY: unit-$(1)
unit-$(1): $(addsuffix .run,$(filter $(BUILD)/unit/$(1)/%,$(UNIT_TESTS)))
endef
$(foreach l,$(LAYERS) $(DAEMONS),$(eval $(call unit_layer_rule,$(l))))

# --- integration tests: tests/integration/test_*.c drive real daemons with libmongoc ---
INTEGRATION_SOURCES := $(sort $(wildcard tests/integration/test_*.c))
INTEGRATION_SUPPORT := $(filter-out $(INTEGRATION_SOURCES),$(sort $(wildcard tests/integration/*.c)))
INTEGRATION_TESTS := $(patsubst tests/integration/%.c,$(BUILD)/integration/%,$(INTEGRATION_SOURCES))
$(BUILD)/obj/tests/integration/%.o: CFLAGS_ALL += $(shell pkg-config --cflags libmongoc-1.0 2>/dev/null | sed 's/-I/-isystem /g')

define integration_rule
$(patsubst tests/integration/%.c,$(BUILD)/integration/%,$(1)): $(BUILD)/obj/$(1:.c=.o) $(patsubst %.c,$(BUILD)/obj/%.o,$(INTEGRATION_SUPPORT)) $(LINK)
	@mkdir -p $$(@D)
	@echo "  LD  $$@"
	@$(CC) $(LDFLAGS) -o $$@ $$^ $(LDLIBS_ALL) $(shell pkg-config --libs libmongoc-1.0 2>/dev/null) -lcmocka
endef
$(foreach t,$(INTEGRATION_SOURCES),$(eval $(call integration_rule,$(t))))

INTEGRATION_LONG := $(patsubst %,$(BUILD)/integration/test_%,initial_sync migration_sets kill migration)
.PHONY: integration $(INTEGRATION_TESTS:%=%.run)
$(INTEGRATION_TESTS:%=%.run): %.run: % all
	$(run_test)
integration: $(addsuffix .run,$(INTEGRATION_LONG) $(filter-out $(INTEGRATION_LONG),$(INTEGRATION_TESTS)))

# --- chaos: workloads, faults and checkers; see tests/chaos/README.md ---
CHAOS_SOURCES := $(sort $(wildcard tests/chaos/*.c))
CHAOS_CHECKS := $(filter tests/chaos/test_%,$(CHAOS_SOURCES))
CHAOS_PARTS := $(patsubst %.c,$(BUILD)/obj/%.o,$(filter-out $(CHAOS_CHECKS) tests/chaos/chaos.c,$(CHAOS_SOURCES)) tests/integration/harness.c)
CHAOS_TESTS := $(patsubst tests/chaos/%.c,$(BUILD)/chaos/%,$(CHAOS_CHECKS))
$(BUILD)/obj/tests/chaos/%.o: CFLAGS_ALL += $(shell pkg-config --cflags libmongoc-1.0 2>/dev/null | sed 's/-I/-isystem /g')
$(BUILD)/chaos/%: $(BUILD)/obj/tests/chaos/%.o $(CHAOS_PARTS) $(LINK)
	@mkdir -p $(@D)
	@echo "  LD  $@"
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ALL) $(shell pkg-config --libs libmongoc-1.0 2>/dev/null) -lcmocka
.SECONDARY: $(CHAOS_PARTS) $(patsubst %.c,$(BUILD)/obj/%.o,$(CHAOS_CHECKS) tests/chaos/chaos.c)
.PHONY: chaos unit-chaos
.PHONY: $(CHAOS_TESTS:%=%.run)
$(CHAOS_TESTS:%=%.run): %.run: %
	$(run_test)
unit-chaos: $(CHAOS_TESTS:%=%.run)
unit: unit-chaos
chaos: all $(BUILD)/chaos/chaos
	@BIN=$(BUILD) $(BUILD)/chaos/chaos --seconds $(or $(SECONDS),60) --seed $(or $(SEED),1) --folder $(BUILD)/chaos-runs $(CHAOS)

# --- fuzz targets: tests/fuzz/fuzz_*.c; `make fuzz SECONDS=10` runs each for so long ---
FUZZ_SOURCES := $(sort $(wildcard tests/fuzz/fuzz_*.c))
FUZZ_PROGRAMS := $(patsubst tests/fuzz/%.c,$(BUILD)/fuzz/%,$(FUZZ_SOURCES))
$(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(LINK)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ALL)
.PHONY: fuzz fuzz-programs
fuzz-programs: $(FUZZ_PROGRAMS)
fuzz: test-deps
	@$(MAKE) --no-print-directory -s -j$(shell nproc) CC=clang FUZZ=1 BUILD=build-fuzz fuzz-programs
	@set -e; for f in build-fuzz/fuzz/fuzz_*; do case $$f in *.*) continue;; esac; mkdir -p build-fuzz/corpus/$$(basename $$f); \
	  $$f -max_total_time=$(or $(SECONDS),10) -timeout=10 -print_final_stats=0 build-fuzz/corpus/$$(basename $$f) 2>&1 | tail -n 1; done

# --- benchmarks: tests/bench/ is one program, started by run.sh ---
BENCH_OBJECTS := $(patsubst %,$(BUILD)/obj/tests/bench/%.o,bench client limits_net limits_disk)
$(BUILD)/bench/bench: $(BENCH_OBJECTS) $(LINK)
	@mkdir -p $(@D)
	@$(CC) $(LDFLAGS) -o $@ $^ $(LDLIBS_ALL)

# --- what people call ---
.PHONY: deps test-deps run stop revive test lint format bench clean
deps:
	@deploy/install-packages.sh
test-deps:
	@deploy/install-packages.sh --tests

# The build starts in a new make: this one was read before the packages were there.
run: deps
	@$(MAKE) --no-print-directory -s -j$(shell nproc) all
	@BIN=$(BUILD) deploy/local-cluster.sh start
stop revive:
	@deploy/local-cluster.sh $@

test: test-deps
	@tests/run-all.sh

C_FILES = $(shell git ls-files '*.c' '*.h')
lint: test-deps
	@clang-format --dry-run --Werror $(C_FILES)
	@tests/tidy.sh

format:
	@clang-format -i $(C_FILES)

bench: deps
	@$(MAKE) --no-print-directory -j$(shell nproc) all
	@BIN=$(BUILD) tests/bench/run.sh

clean:
	@rm -rf $(BUILD)

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
