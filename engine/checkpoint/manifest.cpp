// SPDX-License-Identifier: Apache-2.0
#include "engine/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "engine/files/block_sum.h"
#include "engine/files/safetensors_header.h"
#include "engine/text/json_reader.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr std::int64_t format_version = 2;  // version 1 had other checksums
constexpr const char* version_key = "tessera_checkpoint";

std::string checksum_of(const json& content) {
  const std::string text = content.dump(-1, ' ', false, json::error_handler_t::replace);
  return fmt::format("{:016x}", block_sum(std::as_bytes(std::span(text))));
}

bool is_readable(const std::string& bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](char c) { return (c >= ' ' && c <= '~') || c == '\n' || c == '\t'; });
}

json blob_json(const std::string& bytes) {
  if (is_readable(bytes)) return bytes;
  std::string hex;
  for (const char c : bytes) hex += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return {{"hex", hex}};
}

bool parse_blob(const json& entry, std::string& bytes) {
  if (entry.is_string()) return bytes = entry.get<std::string>(), true;
  if (!entry.is_object() || !entry.contains("hex") || !entry["hex"].is_string()) return false;
  const auto hex = entry["hex"].get<std::string>();
  for (std::size_t k = 0; k + 1 < hex.size(); k += 2) {
    unsigned value = 0;
    const auto [end, error] = std::from_chars(hex.data() + k, hex.data() + k + 2, value, 16);
    if (error != std::errc{} || end != hex.data() + k + 2) return false;
    bytes.push_back(static_cast<char>(value));
  }
  return hex.size() % 2 == 0;
}

bool is_shape(const json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), [](const json& n) {
           return n.is_number_unsigned() && n.get<std::uint64_t>() < (1ULL << 62);
         });
}

// A manifest names files of its own folder only: one from elsewhere must not make a reader open, or
// a writer remove, files outside of it.
bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

Result<CheckpointParameter> parse_parameter(const json& entry, const std::string& source) {
  JsonReader reader(entry, source);
  CheckpointParameter parameter{.name = reader.text("name"), .shape = {}};
  parameter.steps = reader.integer("steps", 0);
  TESSERA_TRY(reader.status());
  if (!entry.contains("shape") || !is_shape(entry["shape"])) {
    reader.fail("shape", "is no list of sizes");
    return reader.status();
  }
  parameter.shape = entry["shape"].get<std::vector<std::int64_t>>();
  const auto numel = checked_numel(parameter.shape, DType::float32);
  if (!numel.ok()) reader.fail("shape", numel.status().message());
  TESSERA_TRY(reader.status());
  return parameter;
}

Result<Manifest::File> parse_file(const json& entry, const std::string& source) {
  JsonReader reader(entry, source);
  Manifest::File file{.name = reader.text("name"), .bytes = Bytes{reader.integer("bytes", 0)}};
  const std::string sum = reader.text("header_checksum");
  const auto [end, error] =
      std::from_chars(sum.data(), sum.data() + sum.size(), file.header_sum, 16);
  const bool known = error == std::errc{} && end == sum.data() + sum.size();
  if (!known) reader.fail("header_checksum", "is no hexadecimal number");
  if (!is_plain_name(file.name)) reader.fail("name", "is no name of a file");
  TESSERA_TRY(reader.status());
  return file;
}

template <class T>
Status parse_list(const json& content, const char* key, const std::string& source,
                  Result<T> (*parse)(const json&, const std::string&), std::vector<T>& into) {
  if (!content.contains(key) || !content[key].is_array()) {
    return Status(Code::corrupt, fmt::format("{}: {} is no list", source, key));
  }
  for (std::size_t k = 0; k < content[key].size(); ++k) {
    const json& entry = content[key][k];
    const std::string where = fmt::format("{}: {}[{}]", source, key, k);
    if (!entry.is_object()) return Status(Code::corrupt, where + " is no object");
    TESSERA_ASSIGN(T one, parse(entry, where));
    into.push_back(std::move(one));
  }
  return {};
}

Result<Manifest> parse_content(const json& content, const std::string& source) {
  JsonReader reader(content, source);
  Manifest m;
  m.step = reader.integer("step", 0);
  m.model = reader.text("model");
  m.scheme = reader.text("scheme");
  const std::int64_t ranks = reader.integer("world_size", 1);
  if (ranks > (1 << 24)) reader.fail("world_size", "is more ranks than there can be");
  m.world_size = static_cast<Rank>(ranks);
  TESSERA_TRY(reader.status());
  TESSERA_TRY(parse_list(content, "parameters", source, parse_parameter, m.parameters));
  TESSERA_TRY(parse_list(content, "files", source, parse_file, m.files));
  if (!content.contains("blobs") || !content["blobs"].is_object()) {
    reader.fail("blobs", "is no object");
    return reader.status();
  }
  for (const auto& [name, entry] : content["blobs"].items()) {
    if (!parse_blob(entry, m.blobs[name])) reader.fail("blobs." + name, "is no text and no hex");
  }
  TESSERA_TRY(reader.status());
  return m;
}

}  // namespace

std::string to_json(const Manifest& m) {
  json content = {{"step", m.step},
                  {"model", m.model},
                  {"scheme", m.scheme},
                  {"world_size", m.world_size},
                  {"parameters", json::array()},
                  {"files", json::array()},
                  {"blobs", json::object()}};
  for (const CheckpointParameter& p : m.parameters) {
    content["parameters"].push_back({{"name", p.name}, {"shape", p.shape}, {"steps", p.steps}});
  }
  for (const Manifest::File& f : m.files) {
    content["files"].push_back({{"name", f.name},
                                {"bytes", f.bytes.value},
                                {"header_checksum", fmt::format("{:016x}", f.header_sum)}});
  }
  for (const auto& [name, bytes] : m.blobs) content["blobs"][name] = blob_json(bytes);
  const json all = {
      {version_key, format_version}, {"checksum", checksum_of(content)}, {"content", content}};
  return all.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Manifest> parse_manifest(std::string_view text, const std::string& source) {
  const auto parsed = parse_json(text, source);
  if (!parsed.ok()) return Status(Code::corrupt, parsed.status().message());
  if (!parsed->is_object() || !parsed->contains(version_key)) {
    return Status(Code::corrupt, fmt::format("{}: has no key {}, so it is no checkpoint of tessera",
                                             source, version_key));
  }
  const json& version = (*parsed)[version_key];
  if (version.is_number_unsigned() && version != format_version) {
    const auto found = version.get<std::uint64_t>();
    const char* const way = found > format_version ? "use a newer tessera"
                                                   : "export its weights with the older tessera";
    return Status(Code::not_supported,
                  fmt::format("{}: {} is {}, this version reads {}: {}", source, version_key, found,
                              format_version, way));
  }
  const bool known = version == format_version && parsed->contains("content") &&
                     parsed->contains("checksum") && (*parsed)["content"].is_object();
  if (!known || (*parsed)["checksum"] != checksum_of((*parsed)["content"])) {
    return Status(Code::corrupt,
                  fmt::format("{}: checksum does not match what it says: it was damaged or edited; "
                              "load another checkpoint",
                              source));
  }
  auto content = parse_content((*parsed)["content"], source);
  if (content.ok()) return content;
  return Status(Code::corrupt, content.status().message());
}

Numel numel_of(const CheckpointParameter& parameter) {
  std::int64_t numel = 1;
  for (const std::int64_t size : parameter.shape) numel *= size;
  return Numel{numel};
}

}  // namespace tessera
