// SPDX-License-Identifier: Apache-2.0
// What torch.save writes: a zip without compression of one pickle and the elements of its tensors.
//
//   TorchArchiveWriter archive;
//   archive.pickle().begin_dict();
//   archive.pickle().text("param"); archive.tensor({2, 3}, values);
//   archive.pickle().end_dict();
//   file->write(archive.finish());
#pragma once

#include <span>
#include <string>
#include <vector>

#include "exchange/checkpoints/object_pickle.h"

namespace tessera::exchange {

class TorchArchiveWriter {
 public:
  ObjectPickle& pickle() { return pickle_; }
  /// The next value of the pickle: a contiguous tensor of float32, below 4 GiB.
  void tensor(const std::vector<std::int64_t>& shape, std::span<const float> values);
  /// A tensor of one int32, which Python takes for an int, too.
  void scalar(std::int32_t value);
  /// The archive; the writer is done with.
  std::string finish();

 private:
  void rebuild(const char* storage_class, std::string bytes, std::int64_t elements,
               const std::vector<std::int64_t>& shape);

  ObjectPickle pickle_;
  std::vector<std::string> storages_;
};

}  // namespace tessera::exchange
