// SPDX-License-Identifier: Apache-2.0
// Where the parameters of a module are among the views of its work.
#pragma once

#include <string>

#include "tessera/model.h"
#include "training/language/adapter.h"

namespace tessera::language {

/// A module that is not computed: a sentence.
Status unsupported(const Module& module, const std::string& what);

class SlotTaker {
 public:
  static constexpr std::int64_t any = -1;  // in a shape

  /// `used`: by module, what its work reads.
  SlotTaker(const Model& model, const std::vector<std::vector<ParameterId>>& used,
            const Shape& shape)
      : model_(model), used_(used), shape_(shape) {}

  void begin(ModuleId module);
  std::size_t taken() const { return taken_; }
  /// What failed first.
  const Status& status() const { return failed_; }
  void fail(Status why) { failed_ = std::move(why); }

  bool has(const char* name) const;
  /// The module's parameter `name`, of this shape.
  Slot slot(const std::string& name, const std::vector<std::int64_t>& shape, bool optional);
  /// Beside the linear layer `name`, if there is one.
  AdapterSlots adapter(const std::string& name, std::int64_t in, std::int64_t out);
  /// By the operation's place in the model; a module has two at most.
  DropoutSlots dropout(float share, std::int32_t operation) const;

 private:
  const Model& model_;
  const std::vector<std::vector<ParameterId>>& used_;
  const Shape& shape_;
  ModuleId id_;
  std::size_t taken_ = 0;
  Status failed_;
};

}  // namespace tessera::language
