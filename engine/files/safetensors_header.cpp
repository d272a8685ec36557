// SPDX-License-Identifier: Apache-2.0
#include "engine/files/safetensors_header.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>

#include "engine/text/json_reader.h"

namespace tessera {
namespace {

using nlohmann::json;

constexpr const char* metadata_key = "__metadata__";

constexpr std::array<std::pair<const char*, DType>, 7> dtypes = {{{"F64", DType::float64},
                                                                  {"F32", DType::float32},
                                                                  {"F16", DType::float16},
                                                                  {"BF16", DType::bfloat16},
                                                                  {"I64", DType::int64},
                                                                  {"I32", DType::int32},
                                                                  {"U8", DType::uint8}}};

Status corrupt(const std::string& source, const std::string& what) {
  return Status(Code::corrupt, fmt::format("{}: {}", source, what));
}

bool is_size(const json& value) {
  if (!value.is_number_integer()) return false;
  if (!value.is_number_unsigned()) return value.get<std::int64_t>() >= 0;
  return value.get<std::uint64_t>() <= std::numeric_limits<std::int64_t>::max();
}

bool are_sizes(const json& value) {
  return value.is_array() && std::all_of(value.begin(), value.end(), is_size);
}

Result<StoredTensor> parse_tensor(const std::string& name, const json& entry, Bytes data,
                                  const std::string& source) {
  const auto bad = [&](const std::string& what) {
    return corrupt(source, fmt::format("tensor {}: {}", in_quotes(name), what));
  };
  const bool whole = entry.is_object() && entry.size() == 3 && entry.contains("dtype") &&
                     entry.contains("shape") && entry.contains("data_offsets");
  if (!whole) return bad("needs dtype, shape and data_offsets, and nothing else");
  if (!entry["dtype"].is_string()) return bad("its dtype is no text");
  if (!are_sizes(entry["shape"])) return bad("its shape is no list of sizes");
  if (!are_sizes(entry["data_offsets"]) || entry["data_offsets"].size() != 2) {
    return bad("its data_offsets are not [begin, end]");
  }
  const auto dtype = entry["dtype"].get<std::string>();
  const auto found = std::find_if(dtypes.begin(), dtypes.end(),
                                  [&](const auto& known) { return dtype == known.first; });
  if (found == dtypes.end()) {
    return Status(Code::not_supported,
                  fmt::format("{}: tensor {} has the dtype {}; convert it to F32, BF16, F16, F64, "
                              "I64, I32 or U8",
                              source, in_quotes(name), in_quotes(dtype)));
  }
  StoredTensor tensor{name, found->second, entry["shape"].get<std::vector<std::int64_t>>(),
                      Bytes{entry["data_offsets"][0].get<std::int64_t>()},
                      Bytes{entry["data_offsets"][1].get<std::int64_t>()}};
  const auto numel = checked_numel(tensor.shape, tensor.dtype);
  if (!numel.ok()) return bad(numel.status().message());
  if (tensor.begin > tensor.end || tensor.end > data) {
    return bad(fmt::format("lies in bytes {} to {} of {}", tensor.begin.value, tensor.end.value,
                           data.value));
  }
  if (tensor.end - tensor.begin != bytes_of(*numel, tensor.dtype)) {
    return bad(fmt::format("has {} bytes, but its shape and dtype need {}",
                           (tensor.end - tensor.begin).value,
                           bytes_of(*numel, tensor.dtype).value));
  }
  return tensor;
}

// As the reference implementation demands: one behind another, without gaps, up to the end.
Status check_gaps(const std::vector<StoredTensor>& tensors, Bytes data, const std::string& source) {
  Bytes at{};
  for (const StoredTensor& tensor : tensors) {
    if (tensor.begin != at) {
      return corrupt(source, fmt::format("tensor {} begins at byte {} instead of {}",
                                         in_quotes(tensor.name), tensor.begin.value, at.value));
    }
    at = tensor.end;
  }
  if (at == data) return {};
  return corrupt(source, fmt::format("tensors end at byte {}, but there are {} bytes of data",
                                     at.value, data.value));
}

}  // namespace

Result<Numel> checked_numel(const std::vector<std::int64_t>& shape, DType dtype) {
  // Zero sizes first: they make any other harmless.
  if (std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 0; })) {
    return Status(Code::invalid_argument, "its shape has a negative size");
  }
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return Numel{0};
  std::int64_t numel = 1;
  const std::int64_t most = std::numeric_limits<std::int64_t>::max() / size_of(dtype).value;
  for (std::int64_t n : shape) {
    if (n > most / numel) {
      return Status(Code::invalid_argument, "its shape has more elements than any memory");
    }
    numel *= n;
  }
  return Numel{numel};
}

// A size of 4 GiB or more has a byte that is none in its upper half; headers have some KiB.
bool begins_as_safetensors(std::string_view beginning) {
  constexpr std::size_t half = safetensors_size_bytes / 2;
  if (beginning.size() < safetensors_size_bytes + 2) return false;
  const auto upper = beginning.substr(half, half);
  const auto json = beginning.substr(safetensors_size_bytes, 2);
  return upper == std::string_view("\0\0\0\0", half) && (json == "{\"" || json == "{}");
}

Result<SafetensorsHeader> parse_safetensors_header(std::string_view text, Bytes data,
                                                   const std::string& source) {
  auto parsed = parse_json(text, source);
  if (!parsed.ok()) return Status(Code::corrupt, parsed.status().message());
  if (!parsed->is_object()) return corrupt(source, "the header is no JSON object");
  SafetensorsHeader header;
  for (const auto& [name, entry] : parsed->items()) {
    if (name != metadata_key) {
      TESSERA_ASSIGN(StoredTensor tensor, parse_tensor(name, entry, data, source));
      header.tensors.push_back(std::move(tensor));
      continue;
    }
    const bool texts =
        entry.is_object() &&
        std::all_of(entry.begin(), entry.end(), [](const json& v) { return v.is_string(); });
    if (!texts) return corrupt(source, "__metadata__ is no object of texts");
    header.metadata = entry.get<std::map<std::string, std::string>>();
  }
  std::sort(header.tensors.begin(), header.tensors.end(),
            [](const StoredTensor& a, const StoredTensor& b) {
              return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
            });
  TESSERA_TRY(check_gaps(header.tensors, data, source));
  return header;
}

std::string safetensors_header(const SafetensorsHeader& header) {
  nlohmann::ordered_json out = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) out[metadata_key] = header.metadata;
  for (const StoredTensor& tensor : header.tensors) {
    const auto dtype = std::find_if(dtypes.begin(), dtypes.end(),
                                    [&](const auto& d) { return d.second == tensor.dtype; });
    out[tensor.name] = {{"dtype", dtype->first},
                        {"shape", tensor.shape},
                        {"data_offsets", {tensor.begin.value, tensor.end.value}}};
  }
  std::string text = out.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  return text;
}

}  // namespace tessera
