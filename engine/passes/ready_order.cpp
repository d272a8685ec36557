// SPDX-License-Identifier: Apache-2.0
#include "engine/passes/ready_order.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace tessera {
namespace {

// ConvTranspose2d and InstanceNorm3d are among them; Hugging Face's Conv1D is a linear layer.
bool weight_first(std::string_view class_name) {
  constexpr std::array<std::string_view, 7> classes = {"LayerNorm",    "GroupNorm",     "BatchNorm",
                                                       "InstanceNorm", "SyncBatchNorm", "Conv",
                                                       "ConvTranspose"};
  std::string_view name = class_name;
  if (name.size() > 2 && name.back() == 'd' && name[name.size() - 2] >= '1' &&
      name[name.size() - 2] <= '3') {
    name.remove_suffix(2);
  }
  return std::find(classes.begin(), classes.end(), name) != classes.end();
}

}  // namespace

std::vector<std::vector<ParameterId>> ready_orders(
    const Model& model, const std::vector<std::vector<ParameterId>>& used) {
  std::vector<std::vector<ParameterId>> orders = used;
  for (std::size_t m = 0; m < orders.size(); ++m) {
    if (!weight_first(model.modules[m].class_name))
      std::reverse(orders[m].begin(), orders[m].end());
  }
  return orders;
}

}  // namespace tessera
