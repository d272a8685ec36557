# SPDX-License-Identifier: Apache-2.0
# tessera_option_if_found(NAME HEADER LIBRARY MEANING): the option TESSERA_NAME, on where HEADER and
# LIBRARY are found (TESSERA_NAME_INCLUDE_DIR, TESSERA_NAME_LIBRARY).
macro(tessera_option_if_found name header library meaning)
  find_path(TESSERA_${name}_INCLUDE_DIR ${header})
  find_library(TESSERA_${name}_LIBRARY ${library})
  mark_as_advanced(TESSERA_${name}_INCLUDE_DIR TESSERA_${name}_LIBRARY)
  set(tessera_found OFF)
  if(TESSERA_${name}_INCLUDE_DIR AND TESSERA_${name}_LIBRARY)
    set(tessera_found ON)
  endif()
  option(TESSERA_${name} ${meaning} ${tessera_found})
endmacro()
