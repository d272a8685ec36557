// SPDX-License-Identifier: Apache-2.0
#include "exchange/export/output_file.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>

#include "engine/text/text_file.h"
#include "exchange/export/exporter.h"

namespace tessera::exchange {

Result<OutputFile> OutputFile::create(const std::string& path) {
  TESSERA_TRY(check_replaceable(path));
  TESSERA_TRY(check_replaces_export(path));
  OutputFile output(behind_links(path), nullptr);
  TESSERA_TRY(check_replaces_export(output.beside()));  // a recording that was killed, perhaps
  output.file_.reset(std::fopen(output.beside().c_str(), "wb"));
  if (!output.file_) return output.failed();
  return output;
}

OutputFile::~OutputFile() {
  if (!file_) return;
  file_.reset();
  std::remove(beside().c_str());
}

void OutputFile::write(std::string_view bytes) {
  std::fwrite(bytes.data(), 1, bytes.size(), file_.get());
}

Status OutputFile::failed() const {
  return {Code::io_error, fmt::format("Cannot write \"{}\": {}.", path_, std::strerror(errno))};
}

Status OutputFile::finish() {
  if (std::fflush(file_.get()) != 0 || std::ferror(file_.get()) != 0) return failed();
  file_.reset();
  if (std::rename(beside().c_str(), path_.c_str()) == 0) return {};
  const Status status = failed();
  std::remove(beside().c_str());
  return status;
}

}  // namespace tessera::exchange
