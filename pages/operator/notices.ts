import { byId, element } from './dom.ts'

const MAX_NOTICES = 3

/** Shows a notice at the bottom of the page until it is closed, and says it to a screen reader. */
export function notify(text: string): void {
  const host = byId('notices')
  const close = element('button', { type: 'button', class: 'close', 'aria-label': 'Close' }, '×')
  const notice = element('div', { class: 'notice' }, element('p', {}, text), close)
  close.addEventListener('click', () => {
    notice.remove()
    byId('main').focus({ preventScroll: true })
  })
  host.append(notice)
  while (host.children.length > MAX_NOTICES) host.firstElementChild?.remove()
}

/** Says a change of state to a screen reader, once. */
export function announce(text: string): void {
  byId('announcements').textContent = text
}
