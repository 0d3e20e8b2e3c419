// Puts the address under which this page was opened into each command, makes the command reachable by keyboard, which scrolls it,
// and puts a button beside it that copies it. Browsers let pages use the clipboard on localhost and over TLS only.

// The link to this page has the path of a proxy or a mount. In quotes, a shell reads nothing in an address but a quote.
const { origin, pathname } = document.querySelector('[aria-current]')
const address = (origin + pathname.slice(0, -1)).replaceAll("'", '%27')
const EXAMPLE = /'?http:\/\/127\.0\.0\.1:3000(\/[^\s']*)'?/

for (const command of document.querySelectorAll('.command')) {
  const block = command.nextElementSibling
  const code = block.firstElementChild
  code.textContent = code.textContent.replace(EXAMPLE, (_, path) => `'${address}${path}'`)
  block.tabIndex = 0
  if (navigator.clipboard !== undefined) command.append(createButton(command, code))
}

function createButton(command, code) {
  const button = document.createElement('button')
  button.type = 'button'
  button.textContent = 'Copy'
  button.setAttribute('aria-label', `Copy: ${command.textContent}`)
  button.addEventListener('click', async () => {
    const copying = navigator.clipboard.writeText(code.textContent)
    button.textContent = await copying.then(
      () => 'Copied',
      () => 'Not allowed',
    )
    setTimeout(() => {
      button.textContent = 'Copy'
    }, 2000)
  })
  return button
}
