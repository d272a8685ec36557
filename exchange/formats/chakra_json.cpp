// SPDX-License-Identifier: Apache-2.0
// Chakra as JSON: what its feeder reads (a list "workload_graph"), and what its jsonizer writes
// (the messages of the protobuf as one object behind another, with protobuf's names).
#include <algorithm>
#include <initializer_list>

#include "exchange/formats/chakra.h"
#include "exchange/formats/chakra_nodes.h"
#include "exchange/import/format_version.h"
#include "exchange/parse/json_stream.h"

namespace tessera::exchange {
namespace {

constexpr std::size_t json_label_max = 160;

bool is_one_of(std::string_view key, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), key) != names.end();
}

/// true and false are numbers, too.
std::int64_t integer_of(std::string_view raw) { return raw == "true" ? 1 : decimal(raw, 0); }

bool take_ids(JsonCursor& at, std::vector<std::int64_t>& ids) {
  constexpr std::size_t ids_max = 1 << 16;
  if (!at.take('[')) return at.skip();
  while (!at.take(']')) {
    std::string_view raw;
    if (at.peek() == 0 || !at.scalar(raw)) return false;
    if (ids.size() < ids_max) ids.push_back(decimal(raw, 0));
    at.take(',');
  }
  return true;
}

/// [{"name": "comm_size", "int64Val": "4096"}, ...]
bool take_values(JsonCursor& at, ImportedRun& run, ChakraNode& node) {
  if (!at.take('[')) return at.skip();
  while (!at.take(']')) {
    if (at.peek() == 0) return false;
    ChakraAttribute attribute;
    JsonMembers members(at);
    while (members.next()) {
      const std::string_view key = members.key();
      const bool plain = at.peek() != '[' && at.peek() != '{';
      std::string_view raw;
      if (!(plain ? at.scalar(raw) : at.skip())) members.fail();
      if (key == "name") attribute.name = raw;
      if (is_one_of(key, {"stringVal", "string_val"})) attribute.text = raw;
      if (key != "name") attribute.integer = integer_of(raw);
    }
    if (!members.whole()) return false;
    add_attribute(attribute, run, node);
    at.take(',');
  }
  return true;
}

bool take_node(JsonCursor& at, ImportedRun& run, ChakraNode& chakra, std::string& version) {
  ExecutionNode& node = chakra.node;
  JsonMembers members(at);
  while (members.next()) {
    const std::string_view key = members.key();
    const char first = at.peek();
    if (is_one_of(key, {"ctrlDeps", "ctrl_deps", "dataDeps", "data_deps"})) {
      if (!take_ids(at, node.after)) members.fail();
    } else if (key == "attr") {
      if (!take_values(at, run, chakra)) members.fail();
    } else if (first == '[' || first == '{') {
      if (!at.skip()) members.fail();
    } else {
      std::string_view raw;
      if (!at.scalar(raw)) members.fail();
      if (is_one_of(key, {"Id", "id"})) node.id = decimal(raw, 0);
      if (is_one_of(key, {"Name", "name"})) {
        node.name = run.text(unescaped(raw.substr(0, json_label_max)));
      }
      if (is_one_of(key, {"NodeType", "type"})) chakra.type = chakra_node_type(raw);
      if (is_one_of(key, {"startTimeMicros", "start_time_micros"})) {
        node.begin = chakra_time(decimal(raw, 0));
      }
      if (is_one_of(key, {"runtime", "durationMicros", "duration_micros"})) {
        node.duration = chakra_time(decimal(raw, 0));
      }
      if (key == "version") version = raw.substr(0, 80);
      const bool text = first == '"';
      add_attribute({key, text ? raw : std::string_view(), integer_of(raw)}, run, chakra);
    }
  }
  return members.whole();
}

class ChakraJson {
 public:
  ChakraJson(SourceFile& source, const ImportLimits& limits, ImportedRun& run)
      : stream_(source), nodes_(source, limits, run), run_(run) {}

  /// `listed`: the nodes are in a list.
  Status read(bool listed) {
    if (listed) {
      TESSERA_TRY(stream_.enter_list("workload_graph",
                                     [](std::string_view, JsonCursor& at) { return at.skip(); }));
    }
    while (true) {
      TESSERA_ASSIGN(const char next, stream_.peek());
      if (next == 0 || next == ']') break;
      if (next == ',') {
        stream_.skip_char();
        continue;
      }
      const Status status = read_node(!listed);
      if (stream_.cut_off() && read_ > 0) {
        run_.warn("a trace of Chakra ends in the middle: its program was stopped");
        break;
      }
      TESSERA_TRY(status);
    }
    return nodes_.finish();
  }

 private:
  Status read_node(bool may_be_metadata) {
    const std::int64_t begin = stream_.offset();
    ChakraNode node;
    std::string version;
    TESSERA_TRY(stream_.value([&](JsonCursor& at) {
      node = {};
      return take_node(at, run_, node, version);
    }));
    if (may_be_metadata && read_++ == 0) {
      if (!version.empty()) tell_version(version, {"traces of Chakra", {0, 0}, {0, 0}}, run_);
      return {};
    }
    ++read_;
    return nodes_.add(std::move(node), stream_.offset() - begin);
  }

  JsonStream stream_;
  ChakraNodes nodes_;
  ImportedRun& run_;
  std::int64_t read_ = 0;
};

bool has_list(const SourceFile& source) {
  return source.head().find("\"workload_graph\"") != std::string_view::npos;
}

}  // namespace

bool is_chakra_json(const SourceFile& source) {
  const std::string_view head = source.head();
  if (head.substr(0, 16).find('{') == head.npos || head.find("\"traceEvents\"") != head.npos) {
    return false;
  }
  const auto has = [&](std::string_view text) { return head.find(text) != head.npos; };
  return has_list(source) || (has("\"type\"") && has("_NODE\"") &&
                              (has("\"ctrlDeps\"") || has("\"dataDeps\"") || has("\"attr\"") ||
                               has("\"ctrl_deps\"") || has("\"data_deps\"")));
}

Status read_chakra_json(SourceFile& source, const ImportLimits& limits, ImportedRun& run) {
  const bool listed = has_list(source);
  return ChakraJson(source, limits, run).read(listed);
}

}  // namespace tessera::exchange
