// SPDX-License-Identifier: Apache-2.0
#include "exchange/checkpoints/archive_writer.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

namespace tessera::exchange {
namespace {

// CRC-32 as zip has it (ISO 3309).
std::uint32_t crc32_of(std::string_view bytes) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> all{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t c = i;
      for (int k = 0; k < 8; ++k) c = (c & 1U) != 0 ? 0xEDB88320U ^ (c >> 1) : c >> 1;
      all[i] = c;
    }
    return all;
  }();
  std::uint32_t crc = 0xFFFFFFFFU;
  for (const char byte : bytes) {
    crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xFFU] ^ (crc >> 8);
  }
  return crc ^ 0xFFFFFFFFU;
}

void put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xFF);
}

// Sizes and places of entries below 4 GiB, as tensors of up to 2^30 floats are.
class ZipWriter {
 public:
  void add(const std::string& name, std::string_view data) {
    const std::uint32_t crc = crc32_of(data);
    const std::size_t at = out_.size();
    out_ += "PK\3\4";
    head(out_, name, crc, data.size());
    out_ += name;
    out_ += data;
    directory_ += "PK\1\2";
    put(directory_, 20, 2);
    head(directory_, name, crc, data.size());
    directory_.append(10, '\0');  // comment, disk and attributes
    put(directory_, at, 4);
    directory_ += name;
    ++entries_;
  }
  std::string finish() {
    const std::size_t at = out_.size();
    out_ += directory_;
    out_ += "PK\5\6";
    put(out_, 0, 4);
    put(out_, entries_, 2);
    put(out_, entries_, 2);
    put(out_, directory_.size(), 4);
    put(out_, at, 4);
    put(out_, 0, 2);
    return std::move(out_);
  }

 private:
  // Version, flags, no compression, no time; checksum, both sizes, the lengths of name and extra.
  static void head(std::string& out, const std::string& name, std::uint32_t crc,
                   std::uint64_t size) {
    put(out, 20, 2);
    put(out, 0, 4);
    put(out, 0x00210000, 4);  // the first day of 1980
    put(out, crc, 4);
    put(out, size, 4);
    put(out, size, 4);
    put(out, name.size(), 2);
    put(out, 0, 2);
  }

  std::string out_, directory_;
  std::uint64_t entries_ = 0;
};

}  // namespace

void TorchArchiveWriter::rebuild(const char* storage_class, std::string bytes,
                                 std::int64_t elements, const std::vector<std::int64_t>& shape) {
  pickle_.name("torch._utils", "_rebuild_tensor_v2");
  pickle_.mark();
  pickle_.mark();
  pickle_.text("storage");
  pickle_.name("torch", storage_class);
  pickle_.text(std::to_string(storages_.size()));
  pickle_.text("cpu");
  pickle_.number(elements);
  pickle_.tuple();
  pickle_.persistent();
  pickle_.number(0);
  pickle_.numbers(shape);
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t d = shape.size(); d > 1; --d) {
    strides[d - 2] = strides[d - 1] * std::max<std::int64_t>(shape[d - 1], 1);
  }
  pickle_.numbers(strides);
  pickle_.boolean(false);
  pickle_.name("collections", "OrderedDict");
  pickle_.empty_tuple();
  pickle_.call();
  pickle_.tuple();
  pickle_.call();
  storages_.push_back(std::move(bytes));
}

void TorchArchiveWriter::tensor(const std::vector<std::int64_t>& shape,
                                std::span<const float> values) {
  const auto bytes = std::as_bytes(values);
  rebuild("FloatStorage", {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
          static_cast<std::int64_t>(values.size()), shape);
}

void TorchArchiveWriter::scalar(std::int32_t value) {
  std::string bytes;
  put(bytes, static_cast<std::uint32_t>(value), 4);
  rebuild("IntStorage", std::move(bytes), 1, {});
}

std::string TorchArchiveWriter::finish() {
  ZipWriter zip;
  pickle_.finish();
  zip.add("archive/data.pkl", pickle_.take());
  zip.add("archive/byteorder", "little");
  for (std::size_t s = 0; s < storages_.size(); ++s) {
    zip.add("archive/data/" + std::to_string(s), std::exchange(storages_[s], {}));
  }
  zip.add("archive/version", "3\n");
  return zip.finish();
}

}  // namespace tessera::exchange
