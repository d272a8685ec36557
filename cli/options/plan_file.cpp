// SPDX-License-Identifier: Apache-2.0
#include "cli/options/plan_file.h"

#include "engine/text/text_file.h"

namespace tessera::cli {

Result<WrapPlan> load_wrap_plan(const std::string& path, const Model& model) {
  TESSERA_ASSIGN(const std::string text, text_of_file(path));
  return read_wrap_plan(text, path, model);
}

}  // namespace tessera::cli
