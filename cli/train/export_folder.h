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
/// Before weights: config.json becomes config.json.before, unless it and what lies beside it will
/// stay as they are, so that nobody reads new weights by an old model's files, wherever an export
/// is stopped. Whether it did.
bool set_config_aside(const std::string& folder, const std::string& model_path,
                      const std::string& tokenizer);
/// Undoes that, where new weights could not be written.
void put_config_back(const std::string& folder);
/// Copies what lies beside config.json of the tokenizer and of generation, and that file last;
/// `tokenizer`, if not empty, is the tokenizer instead. Fails: io_error.
Status copy_beside_weights(const std::string& folder, const std::string& model_path,
                           const std::string& tokenizer);

}  // namespace tessera::cli
