// SPDX-License-Identifier: Apache-2.0
// Hugging Face's safetensors: weights as named tensors in one file, read and written in parts.
//
// The idea: the header says where every tensor lies, so a rank reads or writes its own elements
// only. A file is checked whole before anything of it is used, and appears under its name only when
// it is complete.
//
//   TESSERA_ASSIGN(auto file, SafetensorsFile::open("model.safetensors"));
//   const StoredTensor* wte = file.find("wte.weight");
//   TESSERA_TRY(file.read(*wte, Numel{0}, bytes));
//
//   TESSERA_ASSIGN(auto out, SafetensorsWriter::create("out.safetensors", tensors, {}));
//   TESSERA_TRY(out.write("wte.weight", Numel{0}, bytes));
//   TESSERA_TRY(out.finish());
//
// Format: github.com/huggingface/safetensors, README: 8 bytes of header size, a JSON header, data.
#pragma once

#include <cstddef>
#include <fstream>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera {

struct StoredTensor {
  std::string name;
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;  // row-major; empty: a scalar
  Bytes begin{};                    // in the file's data
  Bytes end{};

  Numel numel() const { return Numel{(end - begin).value / size_of(dtype).value}; }
};

class SafetensorsFile {
 public:
  /// Fails: io_error (cannot be read), corrupt (no such file format, sizes that do not fit, a name
  /// twice, gaps), not_supported (a dtype without a name here), naming file and tensor.
  static Result<SafetensorsFile> open(const std::string& path);

  /// The tensors in the order of their data.
  const std::vector<StoredTensor>& tensors() const { return tensors_; }
  /// The tensor called `name`, or nullptr.
  const StoredTensor* find(const std::string& name) const;
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

  /// Fills `into` with the elements from `first` on. Fails: invalid_argument (beyond the tensor's
  /// end), io_error, both naming file and tensor.
  Status read(const StoredTensor& tensor, Numel first, std::span<std::byte> into);

 private:
  SafetensorsFile() = default;

  std::string path_;
  std::ifstream file_;
  std::int64_t data_ = 0;  // where the data begin
  std::vector<StoredTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

/// Whether a file that begins with these bytes (ten are enough) is one, as far as they can say: the
/// size of a header below 4 GiB, and a JSON object.
bool begins_as_safetensors(std::string_view beginning);

/// Fails: invalid_argument, if a file of this path would take the place of a folder, a pipe or a
/// device, or of a file that is not empty and no safetensors file: a config.json by mistake.
Status check_safetensors_place(const std::string& path);

class SafetensorsWriter {
 public:
  /// Takes name, dtype and shape of `tensors`; data are laid out by falling size of dtype, then by
  /// name, as the reference implementation does. Writes to `path`.partial until `finish`.
  /// Fails: as check_safetensors_place; invalid_argument (a name twice or reserved, a negative or
  /// too large shape), io_error.
  static Result<SafetensorsWriter> create(const std::string& path,
                                          std::vector<StoredTensor> tensors,
                                          const std::map<std::string, std::string>& metadata);
  SafetensorsWriter(SafetensorsWriter&& other) noexcept;
  /// Removes the partial file unless `finish` has succeeded.
  ~SafetensorsWriter();

  /// Writes the elements from `first` on; calls may come in any order. Fails: invalid_argument (no
  /// such tensor, beyond its end), io_error.
  Status write(const std::string& name, Numel first, std::span<const std::byte> bytes);
  /// Closes the file and gives it its name. Fails: invalid_argument, if elements are missing,
  /// naming the first tensor; io_error.
  Status finish();

 private:
  SafetensorsWriter() = default;
  std::string partial() const { return path_ + ".partial"; }

  std::string path_;  // empty: nothing is left to do
  std::ofstream file_;
  std::int64_t data_ = 0;
  std::map<std::string, StoredTensor> tensors_;
  std::map<std::string, Bytes> written_;
};

}  // namespace tessera
