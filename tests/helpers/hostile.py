"""Names that a page or a table must show as plain text."""

HOSTILE_HTML = [
    "<script>document.title='owned'</script>",
    "</script><script>document.title='owned'</script>",
    "</title></style><img src=x onerror=\"document.title='owned'\">",
    '" onmouseover="document.title=1',
    "' autofocus onfocus='x",
    "<!-- <b>",
    "{{ 7 * 7 }}",
    "=HYPERLINK(0)",
    "&lt;b&gt;",
    "javascript:alert(1)",
]

HOSTILE_CELLS = (
    "<script>alert(1)</script>",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "\uff1d1+1",
    " '=1",
    "'=1",
    "a|b\\|c",
    "**bold** _x_ `code` [a](http://b) ![c](d) ~e~ #1 @user $x$ https://x.y",
    "\\input{/etc/passwd} \\write18 $%&#_{}~^\"'`[*]--",
    "\u202egnp.exe",
    "line\none\ttab\r\0",
    '"quoted", with comma',
    "</table>&amp;&lt;",
    "\u4e2d\u6587 \u00e9\u00df\u00f8 \N{PILE OF POO}",
)
