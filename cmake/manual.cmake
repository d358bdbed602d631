# manual.cmake - man pages from docs/man/*.scd, where scdoc is there to make them.
#
# scdoc switches hyphens off, and man's macros switch them on again at each heading, unless HY is 0: a
# name such as peak_reserved_bytes, which people copy, would be cut in two.
find_program(VW_SCDOC scdoc DOC "makes the man pages; without it there are none")
file(GLOB manual_sources CONFIGURE_DEPENDS docs/man/*.scd)
set(manual_pages)

if(VW_SCDOC)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/man)
  foreach(source ${manual_sources})
    get_filename_component(page ${source} NAME_WLE) # vramwise-demo.1.scd becomes vramwise-demo.1
    set(target_page ${CMAKE_BINARY_DIR}/man/${page})
    add_custom_command(OUTPUT ${target_page}
      COMMAND sh -c [[{ echo .nr HY 0 && "$0" <"$1"; } >"$2.part" && mv "$2.part" "$2"]] ${VW_SCDOC}
        ${source} ${target_page}
      DEPENDS ${source} VERBATIM)
    list(APPEND manual_pages ${target_page})
  endforeach()
  add_custom_target(manual ALL DEPENDS ${manual_pages})
else()
  message(STATUS "scdoc not found: no man pages")
endif()
