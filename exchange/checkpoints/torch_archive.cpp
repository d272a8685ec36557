// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/torch_archive.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <span>

#include "engine/numbers/number.h"
#include "exchange/parse/pickle.h"

namespace tessera::exchange {
namespace {

constexpr std::int64_t most_elements = std::int64_t{1} << 40;
constexpr std::uint64_t wide32 = 0xFFFFFFFF;  // the number is in the zip64 record instead

// Little endian, at a place that is there.
std::uint64_t number_at(std::string_view bytes, std::size_t at, std::size_t count) {
  std::uint64_t value = 0;
  for (std::size_t i = count; i > 0; --i) {
    value = value << 8 | static_cast<unsigned char>(bytes[at + i - 1]);
  }
  return value;
}

struct Directory {
  std::uint64_t entries = 0, bytes = 0, offset = 0;
};

// The numbers of the zip64 extra field, in their fixed order, instead of those that do not fit.
void widen(std::string_view extra, std::initializer_list<std::uint64_t*> numbers) {
  for (std::size_t at = 0; at + 4 <= extra.size();) {
    const std::uint64_t id = number_at(extra, at, 2), size = number_at(extra, at + 2, 2);
    at += 4;
    if (size > extra.size() - at) return;
    std::size_t from = at;
    for (std::uint64_t* number : numbers) {
      if (id != 1 || *number != wide32 || from + 8 > at + size) continue;
      *number = number_at(extra, from, 8);
      from += 8;
    }
    at += size;
  }
}

std::vector<TreeValue> entries_of(TreeValue list) {
  std::vector<TreeValue> out;
  for (TreeItems items(list); items.next();) out.push_back(items.value());
  return out;
}

std::optional<DType> dtype_of_storage(std::string_view name) {
  constexpr std::pair<std::string_view, DType> known[] = {
      {"torch.FloatStorage", DType::float32},
      {"torch.IntStorage", DType::int32},
      {"torch.HalfStorage", DType::float16},
      {"torch.BFloat16Storage", DType::bfloat16},
      {"torch.storage.FloatStorage", DType::float32}};
  for (const auto& [storage, dtype] : known) {
    if (storage == name) return dtype;
  }
  return {};
}

}  // namespace

std::vector<std::int64_t> integers_of(TreeValue value) {
  if (value.is(TreeKind::object)) {  // torch.Size((2, 3)) is called with one tuple
    for (TreeItems arguments(value.arguments()); arguments.next();) {
      value = arguments.value();
      break;
    }
  }
  std::vector<std::int64_t> out;
  for (TreeItems items(value); items.next();) out.push_back(items.value().integer());
  return out;
}

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t product = 1;
  for (const std::int64_t size : shape) {
    if (size < 0 || (size > 0 && product > most_elements / size)) return -1;
    product *= size;
  }
  return product;
}

Numel TorchTensor::numel() const { return Numel{elements_of(shape)}; }

Status TorchTensor::read(Numel first, std::span<float> into) const {
  const std::int64_t size = size_of(dtype).value;
  const auto count = static_cast<std::int64_t>(into.size());
  if (first < Numel{} || Numel{count} > numel() || first > numel() - Numel{count}) {
    return Status(Code::corrupt, "a tensor is shorter than what refers to it");
  }
  std::vector<std::byte> bytes(into.size() * static_cast<std::size_t>(size));
  TESSERA_TRY(file->read(offset + first.value * size, bytes));
  for (std::size_t i = 0; i < into.size(); ++i) into[i] = load_number(bytes, dtype, i);
  return {};
}

Status TorchArchive::corrupt(const std::string& what) const {
  return Status(Code::corrupt, fmt::format("{}: {}", source_, what));
}

Result<std::string> TorchArchive::bytes(std::int64_t offset, std::int64_t count) const {
  if (offset < 0 || count < 0 || offset > file_->size().value ||
      count > file_->size().value - offset) {
    return corrupt("is cut short");
  }
  std::string out(static_cast<std::size_t>(count), '\0');
  TESSERA_TRY(file_->read(offset, std::as_writable_bytes(std::span(out))));
  return out;
}

Result<TorchArchive> TorchArchive::open(std::shared_ptr<const ReadableFile> file,
                                        const std::string& source, std::int64_t begin,
                                        std::int64_t end) {
  TorchArchive made(std::move(file), source);
  TESSERA_TRY(made.find_entries(begin, end));
  const auto pickle = made.entries_.find("data.pkl");
  if (pickle == made.entries_.end())
    return made.corrupt("has no data.pkl, as torch.save writes it");
  if (const auto order = made.entries_.find("byteorder"); order != made.entries_.end()) {
    TESSERA_ASSIGN(const std::string text, made.bytes(order->second.offset, order->second.bytes));
    if (text != "little") {
      return Status(Code::not_supported, fmt::format("{}: has numbers in big endian", source));
    }
  }
  TESSERA_ASSIGN(std::string text, made.bytes(pickle->second.offset, pickle->second.bytes));
  Result<Tree> tree = parse_pickle(std::move(text));
  if (!tree.ok()) {
    return Status(tree.status().code(), fmt::format("{}: {}", source, tree.status().message()));
  }
  made.tree_ = std::make_shared<const Tree>(std::move(*tree));
  return made;
}

// The record at the end says where the directory is, which says where the entries are.
Status TorchArchive::find_entries(std::int64_t begin, std::int64_t end) {
  constexpr std::size_t record = 22, locator = 20, record64 = 56;
  const std::int64_t tail = std::min<std::int64_t>(end - begin, 1 << 16);
  TESSERA_ASSIGN(const std::string last, bytes(end - tail, tail));
  const std::size_t at = last.rfind("PK\5\6");
  if (at == std::string::npos || last.size() - at < record) {
    return corrupt("is no archive as torch.save writes it, or is cut short");
  }
  Directory directory{number_at(last, at + 10, 2), number_at(last, at + 12, 4),
                      number_at(last, at + 16, 4)};
  if (at >= locator && last.compare(at - locator, 4, "PK\6\7") == 0) {
    const auto place = static_cast<std::int64_t>(number_at(last, at - locator + 8, 8));
    TESSERA_ASSIGN(const std::string wide, bytes(begin + place, record64));
    if (!wide.starts_with("PK\6\6")) return corrupt("has a damaged directory");
    directory = {number_at(wide, 32, 8), number_at(wide, 40, 8), number_at(wide, 48, 8)};
  }
  if (directory.bytes > static_cast<std::uint64_t>(end - begin) ||
      directory.offset > static_cast<std::uint64_t>(end - begin)) {
    return corrupt("has a directory beyond its end");
  }
  TESSERA_ASSIGN(const std::string entries,
                 bytes(begin + static_cast<std::int64_t>(directory.offset),
                       static_cast<std::int64_t>(directory.bytes)));
  return add_entries(entries, directory.entries, begin, end);
}

Status TorchArchive::add_entries(std::string_view directory, std::uint64_t count,
                                 std::int64_t begin, std::int64_t end) {
  constexpr std::size_t fixed = 46, local = 30;
  for (std::size_t at = 0; count > 0; --count) {
    if (directory.size() - at < fixed || directory.compare(at, 4, "PK\1\2") != 0) {
      return corrupt("has a damaged directory");
    }
    const std::size_t name_size = number_at(directory, at + 28, 2);
    const std::size_t extra_size = number_at(directory, at + 30, 2);
    const std::size_t comment_size = number_at(directory, at + 32, 2);
    if (directory.size() - at < fixed + name_size + extra_size + comment_size) {
      return corrupt("has a damaged directory");
    }
    std::uint64_t packed = number_at(directory, at + 20, 4);
    std::uint64_t size = number_at(directory, at + 24, 4);
    std::uint64_t offset = number_at(directory, at + 42, 4);
    widen(directory.substr(at + fixed + name_size, extra_size), {&size, &packed, &offset});
    if (number_at(directory, at + 10, 2) != 0 || packed != size) {
      return Status(Code::not_supported, fmt::format("{}: is compressed", source_));
    }
    const std::string_view name = directory.substr(at + fixed, name_size);
    TESSERA_ASSIGN(const std::string header,
                   bytes(begin + static_cast<std::int64_t>(offset), local));
    const auto data = static_cast<std::int64_t>(offset + local + number_at(header, 26, 2) +
                                                number_at(header, 28, 2));
    if (size > static_cast<std::uint64_t>(end - begin) ||
        data > end - begin - static_cast<std::int64_t>(size)) {
      return corrupt("has an entry beyond its end");
    }
    entries_[std::string(name.substr(name.find('/') + 1))] = {begin + data,
                                                              static_cast<std::int64_t>(size)};
    at += fixed + name_size + extra_size + comment_size;
  }
  return {};
}

Result<TorchTensor> TorchArchive::tensor(TreeValue value, const std::string& what) const {
  std::string name = value.name();
  std::vector<TreeValue> arguments = entries_of(value.arguments());
  // A parameter is made from a tensor, one with attributes from what would make it.
  if (name == "torch._utils._rebuild_parameter" && !arguments.empty()) {
    name = arguments[0].name();
    arguments = entries_of(arguments[0].arguments());
  }
  if (name == "torch._tensor._rebuild_from_type_v2" && arguments.size() > 2) {
    name = arguments[0].name();
    arguments = entries_of(arguments[2]);
  }
  if (name != "torch._utils._rebuild_tensor_v2" || arguments.size() < 4) {
    return corrupt(fmt::format("{} is no tensor", what));
  }
  // "storage", its class, its key, its place, its elements
  const std::vector<TreeValue> storage = entries_of(arguments[0].arguments());
  if (storage.size() < 5 || storage[0].text() != "storage") {
    return corrupt(fmt::format("{} has no storage", what));
  }
  const auto dtype = dtype_of_storage(storage[1].name());
  if (!dtype) {
    return Status(Code::not_supported,
                  fmt::format("{}: {} has elements of {}", source_, what, storage[1].name()));
  }
  const auto entry = entries_.find("data/" + std::string(storage[2].text()));
  if (entry == entries_.end()) return corrupt(fmt::format("the data of {} are missing", what));
  TorchTensor out{.file = file_, .dtype = *dtype, .shape = integers_of(arguments[2])};
  const std::vector<std::int64_t> strides = integers_of(arguments[3]);
  const std::int64_t begin = arguments[1].integer();
  if (elements_of(out.shape) < 0 || out.shape.size() > 16 || begin < 0 || begin > most_elements) {
    return corrupt(what + " has an odd shape");
  }
  std::int64_t expected = 1;
  for (std::size_t d = out.shape.size(); d > 0; --d) {
    const std::int64_t size = out.shape[d - 1];
    if (size > 1 && (d > strides.size() || strides[d - 1] != expected)) {
      return Status(Code::not_supported,
                    fmt::format("{}: the elements of {} are not in order", source_, what));
    }
    expected *= std::max<std::int64_t>(size, 1);
  }
  const std::int64_t bytes_each = size_of(*dtype).value;
  const std::int64_t first = begin * bytes_each;
  if (first + out.numel().value * bytes_each > entry->second.bytes) {
    return corrupt(fmt::format("the data of {} are cut short", what));
  }
  out.offset = entry->second.offset + first;
  return out;
}

}  // namespace tessera::exchange
