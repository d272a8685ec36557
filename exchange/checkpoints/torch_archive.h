// SPDX-License-Identifier: Apache-2.0
// What torch.save writes: a zip archive of a pickle and of the bytes of storages, none compressed.
//
// The idea: the pickle is read as data (exchange/parse/pickle.h), and a tensor in it becomes a
// range of bytes of the file, so that parts of it can be read without the rest.
// Format: torch/csrc/jit/serialization (PyTorchStreamWriter), PKWARE's APPNOTE.TXT.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/files/file_system.h"
#include "exchange/parse/tree.h"

namespace tessera::exchange {

/// A tensor without gaps, somewhere in a file.
struct TorchTensor {
  std::shared_ptr<const ReadableFile> file;
  std::int64_t offset = 0;  // bytes, in the file
  DType dtype = DType::float32;
  std::vector<std::int64_t> shape;

  Numel numel() const;
  /// Elements [first, first + into.size()) as floats. Fails: io_error; corrupt, beyond the end.
  Status read(Numel first, std::span<float> into) const;
};

class TorchArchive {
 public:
  /// Of bytes [begin, end) of the file, which is called `source` in messages.
  /// Fails: corrupt, not_supported (compressed, big endian), io_error.
  static Result<TorchArchive> open(std::shared_ptr<const ReadableFile> file,
                                   const std::string& source, std::int64_t begin, std::int64_t end);

  TreeValue root() const { return tree_->root(); }
  /// The tensor that `value` stands for. Fails: corrupt, if it is none; not_supported (a dtype
  /// without numbers here, elements that are not in order), naming `what`.
  Result<TorchTensor> tensor(TreeValue value, const std::string& what) const;

 private:
  struct Entry {
    std::int64_t offset = 0;  // of the data, in the file
    std::int64_t bytes = 0;
  };

  TorchArchive(std::shared_ptr<const ReadableFile> file, std::string source)
      : file_(std::move(file)), source_(std::move(source)) {}
  Status find_entries(std::int64_t begin, std::int64_t end);
  Status add_entries(std::string_view directory, std::uint64_t count, std::int64_t begin,
                     std::int64_t end);
  Status corrupt(const std::string& what) const;
  Result<std::string> bytes(std::int64_t offset, std::int64_t count) const;

  std::shared_ptr<const ReadableFile> file_;
  std::string source_;
  std::map<std::string, Entry> entries_;  // without the archive's own name
  std::shared_ptr<const Tree> tree_;
};

/// The elements of a torch.Size, a list or a tuple of numbers.
std::vector<std::int64_t> integers_of(TreeValue value);

/// Elements of a tensor; -1 for sizes that no tensor has, as damage makes them.
std::int64_t elements_of(const std::vector<std::int64_t>& shape);

}  // namespace tessera::exchange
