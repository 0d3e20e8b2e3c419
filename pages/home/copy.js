// Makes each command reachable by keyboard, which scrolls it, and puts a button beside it that copies it. Browsers let pages use
// the clipboard on localhost and over TLS only.

for (const command of document.querySelectorAll('.command')) {
  const code = command.nextElementSibling
  code.tabIndex = 0
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
