// SPDX-License-Identifier: Apache-2.0
// --export into a folder: weights with all that from_pretrained reads beside them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tessera/status.h"
#include "tessera/types.h"

namespace tessera::cli {

/// What weights may be exported as.
inline const std::map<std::string, DType> exported_dtypes = {
    {"float32", DType::float32}, {"bfloat16", DType::bfloat16}, {"float16", DType::float16}};

/// "out/" is a folder, and so is what is one already.
bool names_folder(const std::string& path);
/// The safetensors file that --export means.
std::string exported_file(const std::string& path);

/// Makes the folder. Fails: io_error; invalid_argument, if it is the model's own, or has an
/// adapter.
Status make_export_folder(const std::string& folder, const std::string& model_path);
/// A warning, if the folder has files of a tokenizer or of generation that none takes the place of.
std::vector<std::string> left_beside_weights(const std::string& folder,
                                             const std::string& model_path,
                                             const std::string& tokenizer);
/// Whether config.json and what lies beside it will be there as they are now.
bool keeps_config(const std::string& folder, const std::string& model_path,
                  const std::string& tokenizer);
/// Copies what lies beside config.json of the tokenizer and of generation, and that file last;
/// `tokenizer`, if not empty, is the tokenizer instead. Fails: io_error.
Status copy_beside_weights(const std::string& folder, const std::string& model_path,
                           const std::string& tokenizer);

}  // namespace tessera::cli
