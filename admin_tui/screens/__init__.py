"""The screens, one file each; `admin_tui.registry` lists them."""
