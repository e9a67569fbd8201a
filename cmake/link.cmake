# How the shared library is linked. The flags are part of the contract: docs/architecture.md, "Linking"; ci/exports reads the result.

set(KINA_VERSION_SCRIPT "${PROJECT_SOURCE_DIR}/include/kina_runtime.map")

# macOS takes the same names from a list.
file(STRINGS "${KINA_VERSION_SCRIPT}" exported REGEX "^ +runtime_[a-z0-9_]+;")
list(TRANSFORM exported REPLACE "^ +(runtime_[a-z0-9_]+);.*" "_\\1")
list(JOIN exported "\n" exported)
file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/kina_runtime.exports" CONTENT "@exported@\n" @ONLY)

function(kina_link_as_runtime target)
  target_link_libraries(${target} PUBLIC kina_header PRIVATE kina_options Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(${target} PROPERTIES OUTPUT_NAME kina VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}
    LINK_DEPENDS "${KINA_VERSION_SCRIPT}" INSTALL_NAME_DIR "@rpath" BUILD_WITH_INSTALL_NAME_DIR ON)
  if(APPLE)
    target_link_options(${target} PRIVATE -Wl,-exported_symbols_list,${PROJECT_BINARY_DIR}/kina_runtime.exports)
  else()
    target_link_options(${target} PRIVATE
      -Wl,--version-script=${KINA_VERSION_SCRIPT}
      -Wl,-z,nodelete -Wl,-z,defs -Wl,-Bsymbolic-functions -static-libstdc++ -static-libgcc)
  endif()
endfunction()
